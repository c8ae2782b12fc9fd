"""The ranks of an echoed command are those that its launcher starts, or none."""

import pytest

from autotune.launch_command import is_command, ranks
from autotune.tables.importers import read

TABLE = "# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n4                      10.05\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("time jsrun -n 2 -a 4 -c 4 -r 1 ./osu_allreduce", 8),
        ("jsrun -n2 -a4 ./a", 8),
        ("jsrun --nrs=2 --tasks_per_rs 4 ./a", 8),
        ("jsrun -i -n 2 -a 4 ./a", 8),
        ("jsrun -p 8 ./a", 8),
        ("jsrun -n ALL_HOSTS -a 4 ./a", None),
        ("ibrun ./osu_allreduce", None),
        ("ibrun -n 4 -o 0 ./osu_allreduce", 4),
        ("srun -N 2 --ntasks-per-node=4 nice -n 10 ./osu_allreduce", 8),
        ("srun --mpi=pmix nice -n 10 ./osu_allreduce", None),
        ("srun -n 8 -c 2 ./osu_allreduce -n 4", 8),
        ("srun --exclusive --label --ntasks 8 ./a", 8),
        ("srun -N 2-4 --ntasks-per-node 2 ./a", None),
        ("+ srun -n32 ./a | tee -n 3", 32),
        ("mpirun_rsh -np 64 -hostfile hosts ./osu_allreduce", 64),
        ("aprun -n 16 -N 8 ./a", 16),
        ("aprun -n16 ./a : -n 8 ./b", 24),
        ("mpirun -np 2 ./a : -np 2 ./b", 4),
        ("mpirun -np 2 ./a : ./b", None),
        ("time flux run -N2 --tasks-per-node=96 -o cpu-affinity=per-task x.sif osu_allreduce", 192),
        ("flux mini run -n 8 ./a", 8),
        ("env X=1 numactl --interleave=all mpirun --mca pml ucx -x A -np 4 ./a -n 7", 4),
        ("mpirun -n 144 -N 36 -hostfile ~/hosts -x U=1 osu", 144),
        ("mpirun ./osu_bcast -np 4", None),
        ("mpirun -np $N ./a", None),
        ("/opt/mpi/bin/mpiexec.hydra -genv A b -np 4 ./a", 4),
        ("mpiexec -n 64 --ppn 32 --cpu-bind depth -d 2 ./a", 64),
        ("salloc -N 2 mpirun -np 4 ./a", 4),
        ("srun -n 1 mpirun -np 4 ./a", 4),
        ("mpirun -np 4 ./a && mpirun -np 8 ./b", None),
        ("mpirun -np 8 ./a; mpirun -np 8 ./b", 8),
        ("sh -c 'mpirun -np 4 ./a; mpirun -np 8 ./b'", None),
        ("mpirun -np 8 ./a  # then mpirun -np 4 as before", 8),
        ("# mpirun -np 8 ./a", 8),
        ("ccc_mprun -p rome -N 2 -n 8 -c 16 ./a", 8),
        ("env -u X mpirun -np 4 ./a", 4),
        ("timeout 60 mpirun -np 4 ./a > out", 4),
        ('sh -c "mpirun -np 4 ./a"', 4),
        ("don't mpirun -np 4 ./a", 4),
        ("lrun -N 2 -T 4 ./a", 8),
        ("mpirun.openmpi -np 4 ./a", 4),
        ("mpiexec --env A=B -n 4 ./a", 4),
        ("mpirun --bind-to core --output-filename f -np 4 ./a", 4),
        ("mpiexec -launcher-exec /usr/bin/ssh -n 4 ./a", 4),
        ("srun --use-min-nodes -n 4 ./a", 4),
        ("flux run --job-name x --env-file f -n 4 ./a", 4),
    ],
)
def test_ranks_of_a_command(line, expected):
    assert is_command(line)
    assert ranks(line) == expected


@pytest.mark.parametrize("line", ["the mpirunner took -np 4", "srun: error: n1", "fluxrun -n 4", ""])
def test_what_is_no_command(line):
    assert not is_command(line)


@pytest.mark.parametrize("between", ["ibrun ./osu_bcast", "TACC:  Starting parallel tasks...", "srun ./a"])
def test_ranks_of_an_older_command_are_not_those_of_a_later_one(between):
    (_, second) = read(f"mpirun -np 4 ./osu_bcast\n{TABLE}{between}\n{TABLE}", "log")
    assert second.comm_size is None
