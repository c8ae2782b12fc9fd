"""How an application is started with variables for its ranks."""

import sys
from types import SimpleNamespace

import pytest

from autotune.stacks.application import run


@pytest.fixture
def said(tmp_path):
    """Call a launcher of a flavour with words and variables, and return the words that it got."""
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/said\n')
    mpirun.chmod(0o700)

    def called(flavour, words, variables):
        run([str(mpirun), *words.split()], SimpleNamespace(flavour=flavour), variables, lambda: None, None)
        return (tmp_path / "said").read_text().rstrip("\n")

    return called


def test_each_part_of_a_command_of_several_programs_gets_the_variables(said):
    """Open MPI forwards what ``-x`` names to the ranks of one part alone."""
    x = "-x ONE -x TWO"
    expected = f"{x} -n 1 ./a x:y : {x} -n 2 ./b"
    assert said("openmpi", "-n 1 ./a x:y : -n 2 ./b", {"ONE": "1", "TWO": "2"}) == expected


OWN = {"LD_PRELOAD": "/our/recorder.so", "AUTOTUNE_RECORD": "/place"}
X = "-x LD_PRELOAD -x AUTOTUNE_RECORD"


@pytest.mark.parametrize(
    ("flavour", "given", "expected"),
    [
        ("openmpi", "-n 1 ./a", f"{X} -n 1 ./a"),
        (
            "openmpi",
            "-x LD_PRELOAD=/a.so -n 1 ./a : -n 1 ./b",
            f"-x AUTOTUNE_RECORD -x LD_PRELOAD=/our/recorder.so:/a.so -n 1 ./a : {X} -n 1 ./b",
        ),
        (
            "openmpi",
            "--mca mca_base_env_list A=1;LD_PRELOAD=/a.so ./a",
            f"{X} --mca mca_base_env_list A=1;LD_PRELOAD=/our/recorder.so:/a.so ./a",
        ),
        ("openmpi", "-n 1 env LD_PRELOAD=/a.so ./a", f"{X} -n 1 env LD_PRELOAD=/our/recorder.so:/a.so ./a"),
        ("mpich", "-genv LD_PRELOAD /a.so ./a", "-genv LD_PRELOAD /our/recorder.so:/a.so ./a"),
        ("mpich", "-env LD_PRELOAD=/a.so ./a", "-env LD_PRELOAD=/our/recorder.so:/a.so ./a"),
        (
            "slurm",
            "--export=ALL,LD_PRELOAD=/a.so,B=1 ./a",
            "--export=ALL,LD_PRELOAD=/our/recorder.so:/a.so,B=1 ./a",
        ),
        ("mpich", "./a NOT_LD_PRELOAD=/a.so LD_PRELOAD", "./a NOT_LD_PRELOAD=/a.so LD_PRELOAD"),
    ],
)
def test_tools_that_a_command_preloads_come_behind_the_recorder(flavour, given, expected, said):
    assert said(flavour, given, OWN) == expected


def test_pages_that_a_program_touches_for_the_first_time_are_counted():
    """Also in what the launcher starts and waits for."""
    here = SimpleNamespace(flavour="openmpi")

    def faults(pages):
        taken = f"import mmap; m = mmap.mmap(-1, {pages} << 12, flags=34); m.madvise(15)"
        touch = f"{taken}; m[::4096] = bytes({pages})"
        words = ["sh", "-c", f"{sys.executable} -Sc '{touch}' ; true"]
        return run(words, here, {}, lambda: None, None).page_faults

    assert 15_000 < faults(20_001) - faults(1) < 25_000
