"""How an application is started with variables for its ranks."""

from types import SimpleNamespace

from autotune.stacks.application import run


def test_each_part_of_a_command_of_several_programs_gets_the_variables(tmp_path):
    """Open MPI forwards what ``-x`` names to the ranks of one part alone."""
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/said\n')
    mpirun.chmod(0o700)
    words = [str(mpirun), "-n", "1", "./a", "x:y", ":", "-n", "2", "./b"]
    run(words, SimpleNamespace(flavour="openmpi"), {"ONE": "1", "TWO": "2"}, lambda: None, None)
    x = "-x ONE -x TWO"
    assert (tmp_path / "said").read_text() == f"{x} -n 1 ./a x:y : {x} -n 2 ./b\n"
