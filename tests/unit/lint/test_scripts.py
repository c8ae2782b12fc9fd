"""Scripts: each trap is planted once and found, with its line; what a shell makes right is left alone."""

import pytest

from tests.unit.lint.test_lint import found

TRAPS = [
    (
        "unquoted list",
        "export OMPI_MCA_mca_base_env_list=UCX_TLS=rc;UCX_RNDV_THRESH=64k\n",
        1,
        "ends the list",
    ),
    ("not exported", "export A=1\nOMPI_MCA_pml=ucx\nmpirun ./a\n", 2, "not exported"),
    ("second on a line", "export A=1 UCX_RNDV_TRESH=64k\n", 1, "UCX_RNDV_TRESH"),
    ("prefix", "export OMP_MCA_pml=ucx\n", 1, "nothing reads OMP_MCA_pml"),
    ("prefix swapped", "export OPMI_MCA_pml=ucx\n", 1, "nothing reads OPMI_MCA_pml"),
    ("no prefix", "export btl_tcp_links=2\nmpirun ./a\n", 1, "nothing reads btl_tcp_links"),
    ("no prefix behind -x", "mpirun -x pml_ob1_verbose=1 ./a\n", 1, "nothing reads pml_ob1_verbose"),
    ("no prefix before", "mtl_ofi_num_ctxts=2 mpirun ./a\n", 1, "nothing reads mtl_ofi_num_ctxts"),
    ("open quote", "export UCX_TLS='rc\n", 1, "quote"),
    ("launcher's name", "mpirun --mca btl_tcp_if_inlcude eth0 -n 2 ./a\n", 1, "btl_tcp_if_inlcude"),
    ("launcher's value", "mpirun --mca coll_tuned_allreduce_algorithm 9 ./a\n", 1, "the default runs"),
    ("after a backslash", "mpirun -n 2 \\\n  --mca coll_tuned_use_dynamic_rule 1 ./a\n", 1, "no parameter"),
    ("behind a variable", "UCX_TSL=rc mpirun ./a\n", 1, "UCX_TSL"),
    ("-x", "mpirun -x UCX_RNDV_THRESH=inter:64k ./a\n", 1, "aborts"),
    ("twice", "mpirun --mca pml ucx --mca pml ob1 ./a\n", 1, "set twice"),
    ("place", "mpirun --map-by chips ./a\n", 1, "knows no 'chips'"),
    ("place of ppr", "mpirun --map-by ppr:2:nodes ./a\n", 1, "knows no 'nodes'"),
    ("rank", "mpirun --rank-by socket ./a\n", 1, "knows no 'socket'"),
    ("srun --mca", "srun --mpi=pmix --mca pml ucx ./a\n", 1, "not an option of srun"),
    ("srun -x", "srun -n 2 -x UCX_TLS=rc ./a\n", 1, "excludes nodes"),
    ("srun --map-by", "#!/bin/sh\n#SBATCH -N 2\nsrun --map-by core ./a\n", 3, "not an option of srun"),
    ("srun --tune", "srun --tune=a.tune ./a\n", 1, "not an option of srun"),
]


@pytest.mark.parametrize(("text", "line", "words"), [t[1:] for t in TRAPS], ids=[t[0] for t in TRAPS])
def test_a_trap_in_a_script(text, line, words):
    assert any(at == line and words in effect for at, effect in found(text, name="job.sh"))


SOUND = [
    "export OMPI_MCA_coll_tuned_use_dynamic_rules=1 OMPI_MCA_coll_han_priority=0\n",
    "export OMPI_MCA_pml=ucx; export UCX_TLS=rc\n",
    "export OMPI_MCA_coll_tuned_use_dynamic_rules=1 OMPI_MCA_coll=^han\n"
    'export OMPI_MCA_coll_tuned_dynamic_rules_filename="$HOME/rules.conf"\n',
    "export OMPI_MCA_coll_tuned_use_dynamic_rules=1 OMPI_MCA_coll=^han\n"
    "export OMPI_MCA_coll_tuned_dynamic_rules_filename=~/rules.conf\n",
    "UCX_TLS=rc\nexport UCX_TLS\n",
    "set -a; UCX_TLS=rc\n",
    "UCX_TLS=rc mpirun -n 2 ./a --mca x y --map-by nothing\n",
    "env UCX_TLS=$TLS mpirun -x PATH -x UCX_TLS --mca pml ucx --map-by ppr:2:socket:PE=2 ./a\n",
    "srun --mpi=pmix -n 2 ./a -x A=b --mca c d\n",
    "export UCX_TLS=rc # mpirun --mca\n",
    'echo "mpirun --map-by nothing"\n',
    "if true; then\n  module load openmpi\nfi\n",
    # What the grammar cannot read, and a shell can.
    "p=\"$A/lib:`\n   `/c\"\nexport UCX_TLS='rc'\nif a; then\n  # if it wasn't\n  b\nfi\n",
    "#!/usr/bin/rc\nUCX_TLS=rc\nmpirun ./a\n",  # a shell whose variables are all exported
]


@pytest.mark.parametrize("text", SOUND)
def test_what_a_shell_makes_right_is_left_alone(text):
    assert found(text, name="job.sh") == []


def test_a_quoted_path_with_a_dollar_sign_is_not_expanded_for_the_stack():
    text = "export OMPI_MCA_coll_tuned_dynamic_rules_filename='$HOME/r' OMPI_MCA_coll=^han\n"
    text += "export OMPI_MCA_coll_tuned_use_dynamic_rules=1\n"
    assert "working directory" in found(text, name="job.sh")[0][1]


@pytest.mark.parametrize("mpi", ["openmpi4", "openmpi5"])
def test_package_is_a_word_of_open_mpi_5(mpi):
    effects = found("mpirun --map-by package --bind-to package ./a\n", mpi, name="job.sh")
    assert len(effects) == (2 if mpi == "openmpi4" else 0)


def test_4_1_takes_no_x_beside_the_list():
    text = "mpirun -x PATH --mca mca_base_env_list 'UCX_TLS=rc' ./a\n"
    assert "takes no -x" in found(text, "openmpi4", name="job.sh")[0][1]
    assert found(text, "openmpi5", name="job.sh") == []


@pytest.mark.parametrize(
    "text",
    [
        "export btl_tcp_links=2\n. ./run.sh\n",
        "export btl_tcp_links=2\nmpirun --mca btl_tcp_links $btl_tcp_links ./a\n",
        "btl_tcp_links=2\nmpirun ./a\n",
        "export btl_list=tcp coll_dir=/tmp\nmpirun ./a\n",
        "mpirun -x OMPI_MCA_btl_tcp_links=2 ./a\n",
    ],
)
def test_a_word_of_the_scripts_own_is_no_parameter_without_its_prefix(text):
    assert not any("nothing reads" in effect for _, effect in found(text, name="job.sh"))
