"""What a file says of the library it is for decides what is judged, and for which version."""

from pathlib import PurePath

import pytest

from autotune.lint.files import kind_of, lint
from autotune.lint.scripts import stated_versions
from autotune.stacks.knobs import Knob, KnobKind
from tests.unit.lint.test_lint import found


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("module load openmpi/gcc/64/1.10.7", (3, 1)),
        ("module load openmpi/gcc-9.4.0/4.1.2", (4, 1)),
        ("module load openmpi/intel-2021.4/5.0.1", (5, 0)),
        ("module load openmpi/4", (4, 1)),
        ("spack load openmpi@5", (5, 0)),
        ("module load foss/2022a", (4, 1)),
        ("export PATH=/opt/amazon/openmpi/bin:$PATH", (4, 1)),
        ("module load mpi/openmpi-x86_64", (4, 1)),
        ("module load nvidia nvmpi", (4, 1)),
        ('if [ x"$MODE" = "xopenmpi_1.3_ssh" ]; then mpirun ./a; fi', (3, 1)),
        ("module load foss/2024a", None),
        ("module load openmpi/cuda/11.2", None),
        ("mpicc a.c && mpirun ./a.out", None),  # no compiler of Fujitsu's
        ("mpifccpx a.c && mpiexec ./a.out", (3, 1)),
    ],
)
def test_the_version_that_a_script_says(text, version):
    assert stated_versions(text) == ((version,) if version else ())


@pytest.mark.parametrize(
    "text",
    [
        "mpiexec -bind-to user:0+2,1 -n 2 ./a\n",  # MPICH's
        "mpirun -bind-to rr -n 2 ./a\n",
        "mpirun --map-by cores --bind-to sockets -n 2 ./a\n",  # PRRTE compares the shorter one's letters
        "module load mpt\nmpirun --map-by nothing ./a\n",
        "source /opt/intel/oneapi/setvars.sh\nmpirun --map-by nothing ./a\n",
        "module load intel-mpi/2018.0.3\nexport I_MPI_FABRICS=shm:dapl\n",
        "source /opt/intel/compilers_and_libraries_2018/linux/mpi/intel64/bin/mpivars.sh\n"
        "export I_MPI_FABRICS=shm:ofa I_MPI_INTRANODE_EAGER_THRESHOLD=1\n",
        "FI_BASE=1\nmpirun ./a\n",  # a word of the script's own
        "export UCX_TLS=rc\nmpirun --mca pml ob1 --mca osc ucx ./a\n",
        "export UCX_TLS=rc\nmpirun --mca pml ob1 --mca coll_hcoll_enable 1 ./a\n",
        "export UCX_TLS=rc NCCL_NET_PLUGIN=libnccl-net.so\nmpirun --mca pml ob1 ./a\n",
        "mpirun --mca coll_tuned_use_dynamic_rules 1 --mca coll_han_priority 0 "
        "--mca coll_tuned_dynamic_rules_filename rules.conf ./a\n",  # in the job's own directory
    ],
)
def test_what_another_library_or_the_job_itself_makes_right(text):
    assert found(text, "", name="job.sh") == []


def test_the_same_is_found_where_nothing_speaks_against_it():
    assert "has no dapl" in found("export I_MPI_FABRICS=shm:dapl\n", "", name="job.sh")[0][1]
    assert "knows no 'nothing'" in found("mpirun --map-by nothing ./a\n", "", name="job.sh")[0][1]
    text = "export UCX_TLS=rc\nmpirun --mca pml ob1 --mca osc ^ucx ./a\n"
    assert "does not use UCX" in found(text, "", name="job.sh")[0][1]


def test_a_parameter_file_with_names_of_prrte_is_its_own():
    text = "prte_abort_timeout = 10\noob_tcp_sndbuf = 32768\nhwloc_base_binding_policy = core\n"
    path = PurePath("platform/optimized.conf")
    assert kind_of(path, text) == "prte"
    (only,) = lint({path: text})
    assert (only.line, "hwloc_default_binding_policy" in only.remedy) == (3, True)
    for name in ("openmpi-mca-params.conf", ".openmpi/mca-params.conf"):
        assert len(lint({PurePath(name): text})) == 3


def test_a_table_of_whole_numbers_is_no_rules_file():
    mesh = "4\n101\n0 12 7 3\n1 5 6 8\n2 9 11 4\n3 1 2 5\n"
    assert kind_of(PurePath("cells.dat"), mesh) != "rules"
    assert kind_of(PurePath("rules.dat"), mesh.replace("101", "7")) == "rules"


OLD, NEW = (
    "export OMPI_MCA_rmaps_base_oversubscribe=1\n",
    "export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe\n",
)


def test_a_file_for_two_versions_is_wrong_where_both_are():
    assert "silently ignored" in found(OLD, "", name="ci.sh")[0][1]
    assert found(OLD + NEW, "", name="ci.sh") == []  # each reads its own


def test_the_place_in_a_tree_says_the_version():
    assert lint({PurePath("/opt/openmpi/4.1.3/env.sh"): OLD}) == ()
    assert len(lint({PurePath("/opt/openmpi/5.0.5/env.sh"): OLD})) == 1


def test_a_comment_says_the_version_where_no_command_does():
    text = "# e.g. module load openmpi-gnu/3.0\nmpirun --mca orte_base_help_aggregate 0 ./a\n"
    assert found(text, "", name="job.sh") == []
    assert found(text.replace("3.0", "5.0"), "", name="job.sh") != []
    assert found("# tested with Open MPI 4.1\n" + OLD, "", name="job.sh") == []


def test_only_an_interpreter_whose_own_line_ends_so_is_not_found():
    (mixed,) = found("#!/bin/bash\nA=1\r\nmpirun ./a\n", "", name="job.sh")
    (every,) = found("#!/bin/bash\r\nmpirun ./a\r\n", "", name="job.sh")
    assert ("interpreter" in mixed[1], "interpreter" in every[1]) == (False, True)


@pytest.mark.parametrize("mpi", ["openmpi4", "openmpi5"])
def test_frameworks_of_openshmem_are_no_slips(mpi):
    assert found("export OMPI_MCA_spml=ucx OMPI_MCA_scoll_basic_priority_value=1\n", mpi, name="job.sh") == []


def test_an_empty_value_is_left_out_and_a_renamed_parameter_is_named():
    (empty,) = lint({PurePath("a.sh"): 'export OMPI_MCA_hwloc_base_binding_policy=""\n'})
    (moved,) = lint({PurePath("a.sh"): "export OMPI_MCA_orte_hetero_nodes=1\n"})
    assert (empty.remedy, moved.remedy) == ("leave it out", "export PRTE_MCA_prte_hetero_nodes=1")


@pytest.mark.parametrize(("word", "findings"), [("false", 0), ("off", 0), ("true", 1), ("many", 1)])
def test_a_word_that_means_what_it_is_taken_for_is_left_alone(word, findings):
    knob = Knob("openmpi", "5.0.11", "btl_base_warn_component_unused", KnobKind.INTEGER, "")
    text = f"export OMPI_MCA_{knob.name}={word}\n"
    said = lint({PurePath("a.sh"): text}, "openmpi5", [knob.name], knobs={knob.name: knob})
    assert len(said) == findings
