"""Public reports whose question ``lint`` or ``explain`` answers; the lines are our own."""

from pathlib import Path, PurePath

import pytest

from autotune.lint.explained import explained
from autotune.lint.files import lint
from autotune.stacks.asked import Asked
from autotune.stacks.fixed_rules import fixed_algorithm
from autotune.stacks.knobs.ucx import parse

DATA = Path(__file__).parents[2] / "data/knobs"

KNOWN = (
    "coll_tuned_alltoall_algorithm_max_requests",
    "coll_tuned_alltoall_algorithm",
    "btl_vader_eager_limit",
)
UCX = {k.name: k for k in parse((DATA / "ucx-1.13-infiniband.txt").read_text())}

LINTED = [
    (
        "open-mpi/ompi#12589: alltoall's requests cannot be set from the rules file",
        "rules.conf",
        "1\n3\n1\n64\n2\n0 2 0 0 0\n4096 4 0 0 16\n",
        "5 columns without the version header",
    ),
    (
        "open-mpi/ompi#8186: an algorithm that is asked for on the command line is not used",
        "job.sh",
        "mpirun -n 128 --mca coll_tuned_bcast_algorithm 6 ./a\n",
        "without coll_tuned_use_dynamic_rules = 1",
    ),
    (
        "open-mpi/ompi#8831: where is openib in 5.0?",
        "job.sh",
        "mpirun -n 2 --mca btl openib,self,vader ./a\n",
        "Open MPI 5 has no btl openib: MPI_Init aborts",
    ),
    (
        "open-mpi/ompi#11669: a command that works with 4, and what of it remains",
        "job.sh",
        "mpirun -n 8 --mca pml ^ucx --mca btl_openib_allow_ib true ./a\n",
        "Open MPI 5 has no btl_openib",
    ),
    (
        "open-mpi/ompi#10669: --rank-by core beside --map-by node",
        "job.sh",
        "mpirun -n 2 --rank-by core --map-by node hostname\n",
        "--rank-by knows no 'core'",
    ),
    (
        "open-mpi/ompi#12593: alltoall_max_requests does nothing",
        "openmpi-mca-params.conf",
        "coll_tuned_use_dynamic_rules = 1\ncoll_tuned_alltoall_algorithm = 4\n"
        "coll_tuned_alltoall_max_requests = 16\n",
        "has no parameter coll_tuned_alltoall_max_requests",
    ),
    (
        "open-mpi/ompi#13684: an option of the launcher in Open MPI's file",
        "openmpi-mca-params.conf",
        "oob_tcp_disable_family = IPv6\n",
        "oob_tcp_disable_family in a parameter file is silently ignored",
    ),
    (
        "open-mpi/ompi#4948: vader's single copy in a container, with 5.0",
        "job.sh",
        "mpirun -n 8 --mca btl_vader_single_copy_mechanism none ./a\n",
        "btl_vader_single_copy_mechanism",
    ),
    (
        "open-mpi/ompi#8282: orte's temporary directory, with 5.0",
        "job.sh",
        "mpirun -n 8 --mca orte_tmpdir_base /scratch ./a\n",
        "orte_tmpdir_base is silently ignored: it is of Open MPI 4",
    ),
    (
        "rapidsai/ucx-py#417: a threshold of UCX by a wrong name",
        "job.sh",
        "export UCX_RNDV_THRESHOLD=8192\nmpirun -n 2 ./a\n",
        "UCX knows no UCX_RNDV_THRESHOLD",
    ),
    (
        "open-mpi/ompi#9889: transports of UCX by a parameter",
        "job.sh",
        "mpirun -n 2 --mca pml ucx --mca pml_ucx_tls self ./a\n",
        "not which UCX uses",
    ),
    (
        "open-mpi/ompi#11419: all transports",
        "job.sh",
        "mpirun -n 2 --mca opal_common_ucx_tls all ./a\n",
        "'all' is taken for the name of a transport",
    ),
    (
        "open-mpi/ompi#11458: a parameter in capitals",
        "job.sh",
        "export OMPI_MCA_BTL=self,^tcp,^openib\n",
        "nothing reads BTL",
    ),
    (
        "open-mpi/ompi#10669: -N beside --map-by",
        "job.sh",
        "mpirun -N 1 --map-by node hostname\n",
        "-N means --map-by",
    ),
    (
        "open-mpi/ompi#11541: binding above mapping",
        "job.sh",
        "mpirun -n 2 --map-by core --bind-to socket ./a\n",
        "--bind-to socket lies above --map-by core",
    ),
    (
        "rapidsai/rapidsmpf#886: an option with an equals sign",
        "job.sh",
        "mpirun -n 2 --map-by=core ./a\n",
        "aborts at --map-by=core",
    ),
    (
        "openucx/ucx#4911: a level of logs by a wrong name",
        "job.sh",
        "mpirun -n 2 -x UCX_LOG=info ./a\n",
        "UCX knows no UCX_LOG",
    ),
    (
        "open-mpi/ompi#4948: what 5.0 has in the place of single copies",
        "job.sh",
        "mpirun -n 8 --mca btl_vader_single_copy_mechanism none ./a\n",
        "Open MPI 5 has no btl_vader_single_copy_mechanism",
    ),
    (
        "Ramble-Project/ramble#322: fabrics that Intel MPI has no more",
        "job.sh",
        "export I_MPI_FABRICS=shm:tcp\n",
        "has no tcp since 2019",
    ),
    (
        "openucx/ucx#5284: BTLs named beside pml ucx",
        "job.sh",
        "mpirun -np 2 --mca pml ucx --mca btl tcp,self -H a:1,b:1 python3 demo.py\n",
        "pml = ucx sends no message over a BTL",
    ),
    (
        "an algorithm for two ranks forced for all",
        "job.sh",
        "mpirun -n 8 --mca coll_tuned_allgather_algorithm two_proc ./a\n",
        "fails on any other number of ranks",
    ),
    (
        "rules without the component that reads them",
        "job.sh",
        "mpirun -n 8 --mca coll ^tuned --mca coll_tuned_bcast_algorithm 6 ./a\n",
        "mean nothing without it",
    ),
]

NOTES = {"open-mpi/ompi#9889", "open-mpi/ompi#11419", "Ramble-Project/ramble#322", "openucx/ucx#5284"}
"""Reports whose answer depends on more than the version: `lint --all` shows it, and the last line says so."""

BCAST = "1\n7\n2\n2\n1\n0 1 0 0\n8\n2\n0 6 0 0\n4096 7 0 0\n"


def rules(number):
    return f"1\n{number}\n1\n2\n2\n0 1 0 0\n16384 2 0 0\n"


EXPLAINED = [
    (
        "open-mpi/ompi#8157: what is the size of a scatter in a rules file?",
        ("r.conf", rules(15), Asked("scatter", 16, 1024)),
        (7, "1024 × 16 = 16384"),
    ),
    (
        "open-mpi/ompi#7672: the size of an alltoall is the total of all ranks",
        ("r.conf", rules(3), Asked("alltoall", 4, 4095)),
        (6, "4095 × 4 = 16380"),
    ),
    (
        "open-mpi/ompi-collectives-tuning#24: and that of a reduction is one vector",
        ("r.conf", rules(2), Asked("allreduce", 4, 16384)),
        (7, "bytes per rank: 16384"),
    ),
    (
        "open-mpi/ompi#8435: rules cannot tell N nodes × P ranks from N' × P'",
        ("r.conf", BCAST, Asked("bcast", 64, 8, 8)),
        (9, "on 8 nodes coll_han"),
    ),
    (
        "open-mpi/ompi#12321: which rules do the levels of coll_han reach?",
        ("r.conf", BCAST, Asked("bcast", 8, 8, 8)),
        (9, "the entry for 8 ranks"),
    ),
    (
        "open-mpi/ompi#11540: coll_han decides though coll_tuned was configured",
        (
            "openmpi-mca-params.conf",
            "coll_tuned_use_dynamic_rules = 1\ncoll_tuned_allreduce_algorithm = 4\n",
            Asked("allreduce", 64, 8, 8),
        ),
        (2, "coll_han_priority = 0 lets the rules decide"),
    ),
    (
        "open-mpi/ompi#12827: the requests of the second version",
        ("r.conf", "rule-file-version-2\n1\n3\n1\n2\n1\n0 4 0 0 16\n", Asked("alltoall", 4, 8)),
        (7, "the row from 0 bytes on"),
    ),
    (
        "open-mpi/ompi#4067: which algorithm runs?",
        ("r.conf", BCAST, Asked("bcast", 9, 5000)),
        (10, "the entry for 8 ranks is the last one, which serves all larger communicators"),
    ),
    (
        "open-mpi/ompi#10261: and which one where nothing is set?",
        ("r.conf", "1\n7\n1\n2\n1\n0 0 0 0\n", Asked("bcast", 64, 8192)),
        (6, "fixed rules of 5.0 take knomial"),
    ),
    (
        "NOAA-EMC/GSI#887: I_MPI_ADJUST_ALLREDUCE takes an id, ranges stand behind it",
        (
            "job.sh",
            "export I_MPI_ADJUST_ALLREDUCE='2:0-3;1:4-64'\nmpirun -n 4 ./a\n",
            Asked("allreduce", 4, 8),
        ),
        (1, "reach part 2 of 2"),
    ),
]


@pytest.mark.parametrize(("report", "name", "text", "effect"), LINTED, ids=[one[0] for one in LINTED])
def test_lint_answers(report, name, text, effect):
    found = lint({PurePath(name): text}, "openmpi5", KNOWN, knobs=UCX)
    answers = [finding.sure for finding in found if effect in finding.effect]
    assert answers, report
    assert any(answers) == (report.partition(":")[0] not in NOTES)


@pytest.mark.parametrize(("report", "asked", "said"), EXPLAINED, ids=[one[0] for one in EXPLAINED])
def test_explain_answers(report, asked, said):
    name, text, call = asked
    answer = explained(PurePath(name), text, call, "openmpi5", lambda _: None, fixed_algorithm)
    assert answer.line == said[0], report
    assert any(said[1] in why for why in answer.why), answer.why
