"""What a program answers, and what a scenario says of it: read in words, or refused in words."""

import json

import pytest

from autotune.errors import ScenarioError, SpaceError
from autotune.history.trial import Phase, Status, Trial
from autotune.scenario import defaults, scenario_of
from autotune.scenario.sections import Program
from autotune.space import Parameter, Point, Space
from hydra_plugins.autotune._command import ProgramRuns, command_bench, responses
from tests.contract.test_observers import MEASURED

PROGRAM = Program(("true",))


def answered(text, program=PROGRAM):
    return responses(text, program, ["t"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"t": 1}', 1.0),
        ('{"t": "1.5e-3"}', 0.0015),
        ('{"t": 2.5, "other": [true]}', 2.5),
        (f'{{"t": 1{"0" * 140}}}', 1e140),
    ],
)
def test_numbers_are_taken(text, value):
    assert answered(text) == (None, {"t": value})


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ("[" * 100_000, Status.INVALID, "the answer is not JSON: maximum recursion"),
        ('{"a":' * 100_000, Status.INVALID, "the answer is not JSON"),
        (f'{{"t": {"1" * 400}}}', Status.WRONG_RESULT, "t = 1111"),
        (f'{{"t": {"1" * 5000}}}', Status.INVALID, "the answer is not JSON: Exceeds the limit"),
        (f'{{"t": "{"1" * 5000}"}}', Status.WRONG_RESULT, "is not finite"),
        ('{"t": 1e400}', Status.WRONG_RESULT, "t = inf is not finite"),
        ('{"t": -Infinity}', Status.WRONG_RESULT, "t = -inf is not finite"),
        ('{"t": "nan"}', Status.WRONG_RESULT, "t = 'nan' is not finite"),
        ('{"t": true}', Status.INVALID, "t = True is not a number"),
        ('{"t": null}', Status.INVALID, "t = None is not a number"),
        ('{"t": [1]}', Status.INVALID, "t = [1] is not a number"),
        ('{"t": " 1_0 "}', Status.INVALID, "t = ' 1_0 ' is not a number"),
        ('{"t": "1_0"}', Status.INVALID, "is not a number"),
        ('{"t": " 1 "}', Status.INVALID, "is not a number"),
        ('{"t": "１２"}', Status.INVALID, "is not a number"),
        ('{"t": "0x10"}', Status.INVALID, "is not a number"),
        ('{"t": 0}', Status.INVALID, "compared by ratio"),
        ('{"t": -1}', Status.INVALID, "compared by ratio"),
        ('{"t": 5e-324}', Status.INVALID, "from 1e-150 to 1e+150"),
        ('{"t": 1e308}', Status.INVALID, "from 1e-150 to 1e+150"),
        ("", Status.INVALID, "the answer is not JSON"),
        ("\ud800", Status.INVALID, "the answer is not JSON"),
        (json.dumps({"\ud800": 1}), Status.INVALID, "the answer lacks 't'; it has ['\\ud800']"),
        (json.dumps({"t": "x" * 10**6}), Status.INVALID, "is not a number"),
        (json.dumps({f"k{i}": 1 for i in range(10**5)}), Status.INVALID, "the answer lacks 't'"),
    ],
    ids=range(25),
)
def test_what_is_no_response_is_one_failed_launch_with_a_short_reason(text, status, reason):
    failed, answers = answered(text)
    assert failed is not None
    assert failed[0] is status
    assert reason in failed[1]
    assert len(failed[1]) < 1000
    failed[1].encode()  # which a lone surrogate cannot be
    assert not answers


@pytest.mark.parametrize(
    ("said", "value"), [("t:  1.5 ", 1.5), ("t: 1_0", None), ("t: true", None), ("t:", None)]
)
def test_what_a_pattern_finds_is_read_as_strictly_but_for_blanks(said, value):
    failed, answers = answered(said, Program(("true",), answer="patterns", patterns={"t": "t:(.*)"}))
    assert answers == ({} if value is None else {"t": value})
    assert (failed is None) == (value is not None)


@pytest.mark.parametrize(
    "left", ["os.mkfifo('answer')", "os.mkdir('answer')", "os.symlink('/dev/zero', 'answer')"]
)
def test_an_answer_that_is_no_file_is_a_failed_launch(tmp_path, monkeypatch, left):
    monkeypatch.chdir(tmp_path)
    program = Program(("python3", "-c", f"import os; {left}"), way="environment", file="answer")
    space = Space("mine", (Parameter("x", (1, 2), 1),))
    its = ProgramRuns(program, {"t": "min"}, MEASURED, space, tmp_path)
    for number in (1, 2):  # the second finds what the first left
        seen = its.observe(Trial(number, Phase.SEARCH, Point.of({"x": 1}), timeout_s=60))
        assert seen.status in (Status.INVALID, Status.CRASHED)
        expected = ("regular file", "Is a directory", "File exists")
        assert any(why in seen.reason for why in expected), seen.reason


def test_a_template_has_a_place_for_what_is_not_active(tmp_path):
    space = Space("mine", (Parameter("x", (1, 2), 1), Parameter("y", (3, 4), 3, when={"x": (2,)})))
    words = ("python3", "-c", "import sys; print('{{\"t\": 1%s}}' % sys.argv[1])", "{y}")
    program = Program(words, way="template")
    seen = ProgramRuns(program, {"t": "min"}, MEASURED, space, tmp_path).observe(
        Trial(1, Phase.SEARCH, Point.of({"x": 1}), timeout_s=60)
    )
    assert seen.status is Status.OK, seen.reason
    assert seen.estimates[0].median_s == 13


SPACE = "parameters: {size: {values: [1, 2], default: 1}}"


def asked(tmp_path, space, **options):
    """A scenario in which a program measures."""
    (path := tmp_path / "space.yaml").write_text(space)
    place = {"dir": "d", "fresh": False, "notify": []}
    probe = {**defaults()["probe"], "kind": "command", "options": {"run": ["true"], **options}}
    mine = {"space": str(path), "responses": {"t": "min"}, "probe": probe, "campaign": place}
    return scenario_of({**defaults(), **mine}, "mine")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"run": ["true", "{size:{zz}}"], "pass": "template"}, "has more than a name in a field"),
        ({"run": ["true", "{"], "pass": "template"}, "the template '{'"),
        ({"run": ["true", "}"], "pass": "template"}, "the template '}'"),
        ({"run": ["true", "{size!q}"], "pass": "template"}, "has more than a name in a field"),
        ({"run": ["true", "{size!r}"], "pass": "template"}, "has more than a name in a field"),
        ({"run": ["true", "{size:>9}"], "pass": "template"}, "has more than a name in a field"),
        ({"run": ["true", "{size.real}"], "pass": "template"}, "names size.real"),
        ({"run": ["true", "{size[0]}"], "pass": "template"}, "names size[0]"),
        ({"run": ["true", "{}"], "pass": "template"}, "the template '{}' names"),
        ({"run": ["true", "{0}"], "pass": "template"}, "names 0"),
        ({"run": ["true"], "file": "{dir}/x"}, "probe.options.file: the template '{dir}/x' names dir"),
        ({"run": ["true"], "file": ["x", "y"]}, "probe.options.file"),
        ({"run": ["true"], "file": "x" * 5000}, "expected a path"),
        ({"run": ["true", "a\0b"]}, "null byte"),
        ({"run": [["true"]]}, "probe.options.run"),
        ({"run": {"true": 1}}, "probe.options.run"),
        ({"run": None}, "probe.options.run"),
        ({"run": ["true", None]}, "probe.options.run"),
        ({"run": ["true"], "patterns": 5}, "expected a mapping"),
        ({"run": ["true"], "patterns": {"t": ["x"]}}, "probe.options.patterns.t"),
        ({"run": ["true"], "patterns": {"t": "("}}, "probe.options.patterns.t='('"),
        ({"run": ["true"], "patterns": {"t": "(?=x)(y)"}}, "look-around"),
        ({"run": ["true"], "answer": True}, "probe.options.answer"),
        ({"run": ["true"], "pass": 5}, "probe.options.pass"),
    ],
)
def test_options_that_are_wrong_are_refused_before_anything_runs(tmp_path, options, message):
    with pytest.raises(ScenarioError) as refused:
        command_bench(asked(tmp_path, SPACE, **options))
    assert message in str(refused.value)


@pytest.mark.parametrize("name", ["LD_PRELOAD", "BASH_ENV", "not-a-name"])
def test_a_name_that_is_obeyed_is_no_variable_of_a_program(tmp_path, name):
    space = f"stack: command\nparameters: {{{name}: {{values: [a, b]}}}}\n"
    with pytest.raises(SpaceError, match=r"is obeyed by|is no name"):
        command_bench(asked(tmp_path, space, **{"pass": "environment"}))
    if name != "not-a-name":
        command_bench(asked(tmp_path, space, **{"pass": "arguments"}))


@pytest.mark.parametrize("number", [1, 2, 15])
def test_a_program_that_somebody_ends_is_run_again(tmp_path, number):
    once, program = tmp_path / "once", tmp_path / "program"
    program.write_text(
        f"#!/bin/sh\n[ -e {once} ] || {{ touch {once}; kill -{number} $$; }}\necho '{{\"t\": 1.5}}'\n"
    )
    program.chmod(0o755)
    runs = ProgramRuns(Program((str(program),)), {"t": "min"}, MEASURED, Space("none", ()), tmp_path)
    seen = runs.observe(Trial(1, Phase.SEARCH, Point()))
    assert (seen.ok, seen.lost_before) == (True, 1)
