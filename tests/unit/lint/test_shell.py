"""What a shell makes of a script: its branches, its own words, texts that are none of its commands."""

from pathlib import PurePath

import pytest

from autotune.lint.files import lint

FORCED = "mpirun -np 4 --mca coll_tuned_allreduce_algorithm 3 ./a"
MISSING = "without coll_tuned_use_dynamic_rules"


def found(text):
    return [(f.line, f.effect) for f in lint({PurePath("job.sh"): text}, "openmpi5")]


RUN = "mpirun -np 2 ./a\n"


@pytest.mark.parametrize(
    "line",
    [
        *(f"for a in 1 2 3; do {FORCED}; done", f"if true; then {FORCED}; fi", f"timeout 60 {FORCED}"),
        *(f"! {FORCED}", f"time {FORCED}", f"while true; do {FORCED}; done", f"{{ {FORCED}; }}"),
        *(f"nice -n 10 {FORCED}", f"numactl --interleave=all {FORCED}", f"A=1 env B=2 {FORCED}"),
        *(f"test -f x && {FORCED}", f"( {FORCED} )", f"if false; then :; else {FORCED}; fi"),
        *(
            f"/usr/bin/time -v {FORCED}",
            f"stdbuf -oL {FORCED}",
            f"coproc {FORCED}",
            f"parallel {FORCED} ::: 1 2",
        ),
        *(f"until {FORCED}; do sleep 1; done", f"run() {{ {FORCED}; }}\nrun 4", f"exec {FORCED}"),
    ],
)
def test_a_launch_is_found_wherever_the_shell_runs_it(line):
    assert any(MISSING in effect for _, effect in found(f"#!/bin/bash\n{line}\n")), found(line)


def test_each_launch_is_judged_by_what_it_is_told_itself():
    right = FORCED.replace("--mca", "--mca coll_tuned_use_dynamic_rules 1 --mca coll_han_priority 0 --mca", 1)
    lines = [line for line, effect in found(f"{FORCED}\n{right}\n{FORCED}\n") if MISSING in effect]
    assert lines == [1, 3]
    assert (
        found(f"export OMPI_MCA_coll_tuned_use_dynamic_rules=1 OMPI_MCA_coll_han_priority=0\n{FORCED}\n")
        == []
    )


IF = "if [ -d /x ]; then\n  {}\nelse\n  {}\nfi\nmpirun -np 2 ./a\n"
UCX, OB1 = "export OMPI_MCA_pml=ucx UCX_TLS=rc,sm,self", "export OMPI_MCA_pml=ob1"


@pytest.mark.parametrize(
    ("text", "contradicts"),
    [
        (IF.format(UCX, OB1), False),
        (IF.format(OB1, UCX), False),
        (f"case $X in\n a)\n {UCX}\n ;;\n b)\n {OB1}\n ;;\nesac\n", False),
        (f"if a; then\n {UCX}\nelif b; then\n {OB1}\nfi\n", False),
        (IF.format(IF.format(UCX, OB1), OB1), False),
        (f"{OB1}\nexport UCX_TLS=rc\n", True),
        (IF.format(":", OB1) + f"export UCX_TLS=rc\n{RUN}", False),  # only perhaps
        (f"{OB1} UCX_TLS=rc\nif a; then\n export OMPI_MCA_pml=ucx\nfi\n{RUN}", False),
        (f"{OB1} UCX_TLS=rc\n{RUN}if a; then\n export OTHER=1\nfi\n", True),
    ],
)
def test_what_stands_in_two_branches_never_meets(text, contradicts):
    assert any("does not use UCX" in effect for _, effect in found(text)) == contradicts, found(text)


@pytest.mark.parametrize(
    "line",
    [
        'UCX_FLAGS="-mca pml ucx -x UCX_NET_DEVICES=mlx5_0:1"\nmpirun -np 2 $UCX_FLAGS ./a',
        "MPICH_PREFIX=/opt/mpich",
        "NCCL_TEST_PATH=/tmp/nccl-tests/build",
        "UCX_BRANCH=v1.18\ngit checkout ${UCX_BRANCH}",
        "FI_ROOT=/opt/libfabric",
    ],
)
def test_words_of_a_script_s_own_are_no_variables(line):
    assert found(line + "\n") == []


@pytest.mark.parametrize(
    "line", ["UCX_TLS=rc", "UCX_NET_DEVICES=a:1\necho $UCX_NET_DEVICES", "FI_PROVIDER=tcp"]
)
def test_variables_that_nobody_exports_are_found(line):
    assert any("not exported" in effect for _, effect in found(line + "\nmpirun ./a\n"))


@pytest.mark.parametrize("mark", ["EOF", "'EOF'", '"EOF"', "\\EOF", " EOF"])
@pytest.mark.parametrize("dash", ["", "-"])
def test_the_text_of_a_here_document_is_no_command(mark, dash):
    text = f"cat > ucx.conf <<{dash}{mark}\nUCX_TLS=rc\nUCX_RNDV_THRESH=64k\nEOF\n"
    assert found(text) == []
    assert any("not exported" in effect for _, effect in found(text + "UCX_TLS=rc\n" + RUN))


def test_what_is_no_here_document_hides_nothing():
    for line in ("echo $((1<<2))", "cat <<< word", "# <<EOF"):
        assert any(MISSING in effect for _, effect in found(f"{line}\n{FORCED}\n")), line
