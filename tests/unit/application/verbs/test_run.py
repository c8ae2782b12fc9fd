"""``run``: what its processes leave is read; what is no budget or no file of a run is refused."""

import json
import math
from datetime import UTC, datetime
from pathlib import Path

import pytest

from autotune.application.documents import LEARNED
from autotune.application.verbs.run import Cell, Switching, _rules, budget_of, events, learned_in, summary
from autotune.cli import main
from autotune.errors import TableError, UserError
from autotune.stacks.installation import Installation
from autotune.stacks.switched import LEFT_OUT, Offer, offers, plan

BLOCK = "block 0 3 15 " + " ".join([f"{math.log(1e-5)}"] * 4 + [f"{math.log(2e-5)}"] * 4)
TEXT = f"""job 4 0 on
cell 0 bcast 16 4 1
calls 0 64 0 0
try 0 0 2e-05
{BLOCK}
{BLOCK}
settled 0 3 1000
calls 0 1000 2e-05 1e-06 0.0625
calls 0 3000 2e-05 1e-06 0.125
"""


def test_calls_blocks_and_decisions_are_read_and_a_line_that_was_cut_off_is_not():
    told = events([TEXT + "calls 0 99"])
    (cell,) = told.cells
    assert (told.ranks, told.state, told.ending) == (4, "on", "killed")
    found = (cell.collective, cell.lowest_bytes, cell.calls, cell.best, cell.settled_at)
    assert found == ("bcast", 65536, 3000, 3, 1000)
    at, low, high = cell.gain()
    assert at == pytest.approx(2, rel=0.01)
    assert 1 < low <= at <= high
    assert cell.saved_s == pytest.approx(2000 * 1e-5, rel=0.01)
    assert events([TEXT + "end finalized 3.5 0.25\n"]).spent_s == 0.25
    assert events([TEXT, TEXT[TEXT.index("cell") :]]).spent_s == 0.125  # of world's rank 0, who knows of all


def test_a_cell_that_is_looked_at_again_keeps_what_it_saved_and_loses_its_decision():
    (cell,) = events([TEXT + "again 0 3000\ncalls 0 5000 2e-05 1e-06\n"]).cells
    assert (cell.best, cell.settled_at, cell.under_best, cell.calls) == (0, None, 2000, 5000)


@pytest.mark.parametrize("words", ["", "what is this\n", "cell 0 bcast\n", "calls 0 1 2 3\n", "block 0 1\n"])
def test_damaged_lines_are_left_out(words):
    assert events([words]).cells == []


@pytest.mark.parametrize(("text", "share"), [("0.5%", 0.005), ("1 %", 0.01), (".02", 0.02), ("50%", 0.5)])
def test_a_budget_is_a_share(text, share):
    assert budget_of(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["0", "-1%", "60%", "1e-3", "a lot", "nan", ""])
def test_what_is_no_budget_is_refused(text, capsys):
    with pytest.raises(UserError, match="--budget"):
        budget_of(text)
    assert main(["run", "--budget", text, "--", "true"]) == 2
    assert "0.5%" in capsys.readouterr().err


def test_what_was_learned_on_another_stack_is_not_used_and_damage_is_named(tmp_path):
    file = tmp_path / "site.json"
    assert learned_in(file, "openmpi 5.0.11") == []
    cell = {"stack": "openmpi 5.0.11", "collective": "bcast", "bin": 3, "ranks": 8, "algorithm": "binomial"}
    other = cell | {"stack": "mpich 5.0.2", "algorithm": "tree"}
    file.write_text(json.dumps({"format": LEARNED, "cells": [cell, other]}))
    learned = learned_in(file, "openmpi 5.0.11")
    assert learned == [("bcast", 3, 8, "binomial")]
    offered = {"bcast": Offer(("default", "linear", "binomial"), {2: ("a=1", "b=2")})}
    lines = ["budget 0.005", "dry 0", "exact 1", "candidate bcast 2 a=1 b=2", "learned bcast 3 8 2"]
    assert plan(offered, 0.005, False, False, learned).splitlines() == lines
    for text in ("{}", "[", json.dumps({"format": LEARNED, "cells": [{"stack": "openmpi 5.0.11"}]})):
        file.write_text(text)
        with pytest.raises(TableError, match=r"site\.json"):
            learned_in(file, "openmpi 5.0.11")


@pytest.mark.parametrize(
    "words", ["--out .", "--out none/run.json", "--learn .", "--learn none/site.json", "--out x --learn ./x"]
)
def test_a_place_that_is_none_is_refused_before_the_job_begins(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", *words.split(), "--", "touch", "begun"]) == 2
    assert f"{words.split()[0]} {tmp_path}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_without_a_measured_call_says_so_and_what_could_not_be_written_is_not_said_to_be_kept():
    said = summary(Switching(state="on"), {}, 1.0, dry=True, files=[])
    assert "none was measured" in said
    assert said.endswith("nothing is kept\n")


def test_rules_of_a_run_have_nothing_that_is_wrong_for_other_programs_operations(tmp_path, capsys):
    """The switcher passes operations on that are no MPI's own; a file of rules forces all."""
    here = Installation("openmpi", "5.0.11", Path("mpirun"), Path("libmpi.so"), "site")
    offered = offers(here)
    cells = [
        Cell(name, 12, 4, True, best=offered[name].names.index(word), settled_at=1)
        for name, word in (("allreduce", "ring"), ("bcast", "chain"), ("reduce", "binomial"))
    ]
    (text,) = _rules(tmp_path / "run.json", here, Switching(cells), offered, datetime.now(UTC)).values()
    assert "# chain" in text
    assert "# ring" not in text
    assert "# binomial" not in text
    assert "that do not commute: allreduce ring, reduce binomial\n" in capsys.readouterr().err


def test_algorithms_that_are_left_out_have_a_reason():
    assert all(LEFT_OUT.values())
