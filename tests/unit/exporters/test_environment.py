"""Values survive the quoting of every script and module file."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from autotune.exporters import exporter
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.space import Point

NASTY = {"UCX_A": "it's $HOME", "UCX_B": 'a "b" \\n', "UCX_C": "x!y{z}[w]#", "UCX_D": "--"}


def exported(name, placement=()):
    source = Provenance("c", env=tuple(NASTY.items()), placement=placement)
    return exporter(name).export(Recommendation(Point(), (), provenance=source), Path("/site"))


def test_a_shell_reads_back_what_was_meant(tmp_path):
    (text,) = exported("env_sh").values()
    script = tmp_path / "env.sh"
    script.write_text(text)
    done = subprocess.run(
        ["sh", "-c", f". {script}; env"],
        env={"PATH": "/bin:/usr/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if line.startswith("UCX_"))
    assert found == NASTY


@pytest.mark.debian
@pytest.mark.skipif(shutil.which("tclsh") is None, reason="no tclsh here to read a module file with")
def test_tcl_reads_back_what_was_meant(tmp_path):
    (text,) = exported("modulefile").values()
    script = tmp_path / "module.tcl"
    procs = 'proc setenv {n v} {puts "$n=$v"}\nproc module-whatis {t} {}\n'
    script.write_text(procs + text)
    done = subprocess.run(["tclsh", script], capture_output=True, text=True, check=True)
    found = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert {name: found[name] for name in NASTY} == NASTY


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("modulefile", 'setenv UCX_C "x!y\\{z\\}\\[w\\]#"'),
        ("modulefile", 'setenv UCX_A "it\'s \\$HOME"'),
        ("lmod", 'setenv("UCX_B", "a \\"b\\" \\\\n")'),
        ("env_csh", "setenv UCX_C 'x\\!y{z}[w]#'"),  # history is not recalled
    ],
)
def test_characters_with_a_meaning_are_escaped(name, line):
    (text,) = exported(name).values()
    assert line in text.splitlines()
    assert text.startswith("#%Module1.0\n") is (name == "modulefile")
    if name == "lmod":
        assert all(line.startswith(("--", "setenv(", "whatis(")) for line in text.splitlines())


@pytest.mark.parametrize(
    ("placement", "words"),
    [
        ((("bind_to", "core"), ("map_by", "node")), ["--cpu-bind=cores", "--distribution=cyclic"]),
        ((("map_by", "ppr:4:node"),), ["--ntasks-per-node=4"]),
        ((("map_by", "numa:PE=2"),), []),
    ],
)
def test_srun_places_the_ranks_in_its_own_words(placement, words):
    (text,) = exported("slurm", placement).values()
    last = text.splitlines()[-1]
    assert re.findall(r"--(?!mpi)\S+", last) == words
