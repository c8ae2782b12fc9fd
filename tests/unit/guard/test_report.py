"""A check for whoever reads it: exit codes, JUnit, Prometheus, one line, and what to tune again."""

import ast
import json
import math
import re
import shlex
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from lxml import etree

from autotune.errors import ExitCode
from autotune.guard.beside import Beside
from autotune.guard.changes import Change
from autotune.guard.report import CheckReport, reframe_test
from autotune.guard.verdict import NightVerdict, judge
from autotune.history.trial import Cell, Estimate, Observation, Phase, Status, Subject, Trial
from autotune.space import Point
from autotune.views.documents import answer_text
from tests.program import ran
from tests.unit.guard.nights_of import SLOTS, Machine

RNG = np.random.default_rng
QUIET = judge(Machine().nights(30, RNG(1), each=16))
EARLY = judge(Machine().nights(2, RNG(1), each=16))
BEHIND = judge(Machine().nights(1, RNG(1), each=16, loss=(0, SLOTS[1], 1.5, False)))


def beside(speed, blocks=12, spread=0.01):
    """Launches of heats in which the settings of now have such a speed at one size, and differ so much."""
    sides = ([], [])
    for number in range(4 * blocks):
        now = number % 4 in (0, 3)
        trial = Trial(number, Phase.VERIFY, Point(), Subject.UNTOUCHED, number // 4)
        estimates = tuple(
            Estimate(
                Cell(*slot), slot[2] / 1e9 / (speed if now and slot == SLOTS[1] else 1.0) * noise, 1e-12, 9
            )
            for slot, noise in zip(SLOTS, np.exp(RNG(number).normal(0, spread, len(SLOTS))), strict=True)
        )
        sides[now].append(Observation(trial, Status.OK, estimates))
    return Beside.of(*sides, ("as kept", "now"))


def report(*changes, **results):
    return CheckReport("2026-11-01", tuple(map(Change, changes)), **results)


WELL, FINDING, STUCK = ExitCode.WELL, ExitCode.FINDING, ExitCode.STUCK
SAME, KERNEL = beside(1.0), ("kernel 5.1",)
FAILING = replace(SAME, failures="now: 5 crashed of 8 launches")
CASES = {
    "same": (report(verdict=QUIET), WELL),
    "quick": (report("UCX: 1.18 → 1.20"), WELL),
    "early": (report(verdict=EARLY), STUCK),
    "nothing": (report(verdict=NightVerdict()), STUCK),
    "behind": (report(verdict=BEHIND), FINDING),
    "not in effect": (report(not_in_effect=("no rule is reached",), verdict=QUIET), FINDING),
    "slower than as kept": (report("ucx.conf is new", beside=beside(0.7), verdict=EARLY), FINDING),
    "same as kept": (report(beside=SAME, verdict=EARLY), WELL),
    "another kernel": (report(beside=SAME, lacking=KERNEL, verdict=EARLY), STUCK),
    "another kernel, many nights": (report(beside=SAME, lacking=KERNEL, verdict=QUIET), WELL),
    "fails more often": (report(beside=FAILING), FINDING),
    "no rank started": (report(other="could not be checked", verdict=QUIET), STUCK),
    "few launches": (report(beside=beside(1.0, blocks=1)), STUCK),
}
EACH = pytest.mark.parametrize("name", CASES)


@EACH
def test_the_code_says_same_worse_or_not_told(name):
    told, code = CASES[name]
    assert told.code is code
    assert told.text().startswith(told.headline)
    assert told.document()["code"] == code
    assert told.day_message().count("\n") == 1


@EACH
def test_junit_fails_where_something_is_worse_and_skips_what_is_not_told(name):
    """It is valid by the schema of Ant and Jenkins, Windy Road's, by which ReFrame checks its own reports."""
    told, code = CASES[name]
    suite = etree.fromstring(told.junit("2026-11-01T02:00:00Z", "n1").encode())
    etree.XMLSchema(etree.parse(str(files("reframe") / "schemas" / "junit.xsd"))).assertValid(suite)
    counted = {kind: len(suite.findall(f"testcase/{kind}")) for kind in ("failure", "skipped")}
    assert [int(suite.get(key)) for key in ("failures", "skipped")] == [*counted.values()]
    assert bool(counted["failure"]) == (code is ExitCode.FINDING)
    assert int(suite.get("tests")) == len(suite.findall("testcase"))
    assert suite.get("timestamp") == "2026-11-01T02:00:00"


@EACH
def test_metrics_are_what_the_node_exporter_reads(name):
    told, code = CASES[name]
    lines = told.metrics(1.7e9).splitlines()
    sample = re.compile(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [-+0-9.e]+')
    assert all(line.startswith(("# HELP ", "# TYPE ")) or sample.fullmatch(line) for line in lines)
    assert f"autotune_guard_code {code:d}" in lines


@pytest.mark.parametrize("name", ["behind", "slower than as kept"])
def test_what_fell_behind_is_to_be_tuned_again(name):
    how = ("conf=allreduce_local", "mpi.mpirun='/an mpi/mpirun'")
    told = replace(CASES[name][0], how=how, folder="/an site")
    line = [sys.executable, "-m", "autotune", *told.how, "retune=/an site"]  # the Python that runs now
    assert shlex.split(told.document()["tune_again"]) == line
    assert f"tune these again: {told.again}" in told.text()
    assert CASES["same"][0].again == ""


def test_the_first_line_says_what_was_lost_since_when_and_how_much_is_excluded():
    lost, same = CASES["slower than as kept"][0], CASES["same as kept"][0]
    assert re.match(r"MPI_Allreduce on 4 ranks, 64 B: slower than as kept, 1\.4\d× the time", lost.headline)
    assert "since 2026-11-01" in lost.headline
    bound = re.fullmatch(
        r"same as on 2026-11-01, typical calls at most (\S+)% slower at any size.*", same.headline
    )
    assert 0 < float(bound[1]) < 10
    assert "kernel 5.1 is not here to be launched beside it" in CASES["another kernel"][0].headline
    assert "kernel" in CASES["another kernel, many nights"][0].text()


def test_what_is_not_told_says_what_would_tell():
    assert re.search(r"1 earlier night is known, and about \d+ would resolve", CASES["early"][0].headline)


def test_what_is_missing_is_said_only_where_it_would_help():
    """More launches resolve nothing where days differ by more than the loss."""
    seen = replace(EARLY.seen[0], ratio_bound=math.inf, day=0.2, nights_needed=math.inf, by_launches=False)
    days = report(verdict=replace(EARLY, seen=(seen,)))
    assert days.headline.endswith(": nothing but both sides at the same moments would resolve it")
    launches = replace(days, verdict=replace(EARLY, seen=(replace(seen, day=math.nan, by_launches=True),)))
    assert launches.headline.endswith(": more launches a night would resolve it")
    known = replace(days, verdict=replace(EARLY, nights=9, seen=(replace(seen, nights_needed=3.0),)))
    assert "may be slower: another night may resolve it" in known.headline
    faster = replace(days, verdict=replace(EARLY, seen=(replace(seen, ratio_bound=0.9),)))
    assert "at least 10 % faster than before (95 %)" in faster.text()


def test_reframes_test_is_python_with_references_of_every_slot():
    text = reframe_test("/opt/it's", QUIET.seen, "/usr/bin/python3")
    tree = ast.parse(text)
    assert any(isinstance(node, ast.ClassDef) for node in tree.body)
    assert text.count("'us'),") == len(QUIET.seen)
    assert all(math.isfinite(float(bound)) for bound in re.findall(r"None, ([\d.]+), 'us'", text))


@pytest.mark.parametrize("name", ["a\nimport os", "a'; import os", '"""', "$(id)", "`id`", "a\u202eb", "\\"])
def test_the_test_of_a_folder_of_any_name_is_the_same_code(name):
    """A name with a line end stood in a comment, and its second line was code."""
    seen = ast.dump(ast.parse(reframe_test(f"/plain/{name}", (), "/usr/bin/python3")))
    plain = ast.dump(ast.parse(reframe_test("/plain/x", (), "/usr/bin/python3")))
    assert seen.replace(repr(shlex.quote(f"/plain/{name}")), "NAME") == plain.replace("'/plain/x'", "NAME")
    assert "\u202e" not in reframe_test(f"/plain/{name}", (), "python3").splitlines()[0]
    assert '"-P", "-m", "autotune"' in reframe_test("/plain/x", (), "python3")


@pytest.mark.parametrize(("factor", "code"), [(1.0, 0), (1.3, 1)])
def test_the_recipe_for_reframe_judges_the_speed_over_the_defaults_of_the_same_check(factor, code, tmp_path):
    """By a program that says what a check said: one slot may be 30 % slower than the untouched stack."""
    document = report(verdict=QUIET).document()
    first = document["slots"][0]
    first["settings_us"] = factor * first["default_us"]
    (tmp_path / "said.json").write_text(answer_text("guard-check", document))
    (program := tmp_path / "program").write_text(f"#!/bin/sh\ncat {tmp_path}/said.json\n")
    program.chmod(0o755)
    recipe = Path(__file__).parents[3] / "docs" / "recipes" / "reframe_checks.py"
    words = [Path(sys.executable).with_name("reframe"), "-c", recipe, "-r", "--prefix", tmp_path]
    words += ["--report-file", tmp_path / "report.json", "-S", f"program={program}"]
    done = ran([*words, "-S", "AutotuneGuard.kept=/opt/tuned", "-S", "AutotuneGuard.minutes=1"], cwd=tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
    (case,) = json.loads((tmp_path / "report.json").read_text())["runs"][0]["testcases"]
    values = {name.rpartition(":")[2]: value[0] for name, value in case["perfvalues"].items()}
    slots = {f"{s['collective']}_{s['ranks']}_{s['bytes']}": s for s in document["slots"]}
    assert values.keys() == slots.keys()
    for name, slot in slots.items():
        assert values[name] == pytest.approx(slot["default_us"] / slot["settings_us"])
    assert ("failed to meet reference" in done.stdout) == bool(code)
