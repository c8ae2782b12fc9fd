"""Any program as the instrument: a whole campaign on a script, and every way in which it can fail."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.program import autotune
from tests.schemas import answer

SPACE = """
parameters:
  size: {values: [1, 2, 4, 8], ordered: true, default: 1}
  mode: {values: [slow, fast, "odd $(touch owned)"], default: slow}
  unused: {values: [0, 1], default: 0}
"""
PROGRAM = """
import json, os, sys
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
size, mode = float(words["--size"]), words["--mode"]
print("some chatter")
{body}
"""
GOOD = (
    "print(json.dumps({'runtime_s': (2.0 if mode == 'slow' else 1.0) * (1 + abs(size - 4)), 'rate': size}))"
)


def campaign(cwd, body, *words, program=PROGRAM):
    """The words of a campaign, whose files are written."""
    (cwd / "space.yaml").write_text(SPACE)
    (cwd / "program.py").write_text(program.format(body=body))
    return [
        *("conf=command", "space=space.yaml"),
        *(f"probe.options.run=[{sys.executable},program.py]", "responses.runtime_s=min"),
        *("budget.launches=14", "probe.max_samples=2", "probe.budget_s=5", "proposer=random"),
        *("verify.enabled=false", *words),
    ]


def tune(cwd, body, *words, program=PROGRAM):
    return autotune(*campaign(cwd, body, *words, program=program), cwd=cwd)


def status(cwd):
    return answer(autotune("status", "campaigns/command", "--json", cwd=cwd).stdout)


def test_a_program_is_screened_and_tuned(tmp_path):
    done = tune(tmp_path, GOOD, "responses.rate=max", "screening.enabled=false", "budget.launches=26")
    assert done.returncode == 0, done.stdout + done.stderr
    found = status(tmp_path)
    assert found["trials"] == {"ok": 26}
    assert found["recommendation"]["size"] in (4, 8)
    assert found["recommendation"]["mode"] != "slow"
    assert not (tmp_path / "owned").exists()


def test_the_screening_shows_the_planted_effect(tmp_path):
    done = tune(tmp_path, GOOD)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Main effects on runtime_s" in done.stdout
    assert "unused" in done.stdout


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("sys.exit(3)", "crashed: exit code 3"),
        ("print('{\"runtime_s\": ')", "invalid: the answer is not JSON"),
        ("print('[1]')", "invalid: the answer is not a JSON object"),
        ("print(json.dumps({'time': 1}))", "invalid: the answer lacks 'runtime_s'; it has ['time']"),
        ("print(json.dumps({'runtime_s': float('nan')}))", "wrong_result: runtime_s = nan"),
        ("print(json.dumps({'runtime_s': 'soon'}))", "invalid: runtime_s = 'soon' is not a number"),
        ("print(json.dumps({'runtime_s': -1}))", "invalid: runtime_s = -1"),
        ("import time; time.sleep(60)", "timeout: ended after"),
    ],
)
def test_what_goes_wrong_is_a_status_with_its_reason(tmp_path, body, expected):
    done = tune(tmp_path, body, f"launch.timeout_s={1 if expected.startswith('timeout') else 120}")
    assert done.returncode == 3, done.stdout + done.stderr
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_failures_of_some_points_do_not_end_the_campaign(tmp_path):
    body = f"sys.exit(1) if mode == 'fast' else None\n{GOOD}"
    assert tune(tmp_path, body).returncode == 0
    assert status(tmp_path)["trials"]["crashed"] > 0


def test_environment_file_and_patterns(tmp_path):
    program = """
import os, pathlib
value = (2.0 if os.environ["mode"] == "slow" else 1.0) * float(os.environ["size"])
pathlib.Path("answer.txt").write_text(f"it took {{value}} s")
{body}
"""
    words = (
        "probe.options.pass=environment",
        "probe.options.answer=patterns",
        "probe.options.file=answer.txt",
        "'probe.options.patterns.runtime_s=\"took ([0-9.]+) s\"'".strip("'"),
    )
    done = tune(tmp_path, "", *words, program=program)
    assert done.returncode == 0, done.stdout + done.stderr
    assert status(tmp_path)["recommendation"]["size"] == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["probe.options.run=[/no/such/program]"], "/no/such/program"),
        (["probe.options.runs=[x]"], "did you mean 'run'"),
        (["probe.options.pass=stdin"], "arguments, environment, template"),
        (["probe.options.answer=patterns"], "runtime_s"),
        ([r"probe.options.patterns.runtime_s='(a)\1'"], "no back-references and no look-around"),
        (["responses.runtime_s=less"], "min, max"),
        (["probe.options.pass=template", "probe.options.run=[python3,'{sise}']"], "did you mean 'size'"),
    ],
    ids=" ".join,
)
def test_options_that_are_wrong(tmp_path, words, expected):
    done = tune(tmp_path, GOOD, *words)
    assert done.returncode == 2
    assert expected in done.stderr, done.stderr


def test_a_pattern_that_would_never_be_done_ends_at_once(tmp_path):
    words = ["probe.options.answer=patterns", "probe.options.patterns.runtime_s='took ((?:a+)+$x|[0-9.]+)'"]
    body = "print('took ' + 64 * 'a' + '!'); print('took', 1 + abs(size - 4))"
    done = tune(tmp_path, body, *words, "screening.enabled=false")
    assert done.returncode == 0, done.stdout + done.stderr
    assert status(tmp_path)["trials"] == {"ok": 14}
    assert status(tmp_path)["recommendation"]["size"] == 4


STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open("pids", "a") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(60)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["SIGKILL", "two Ctrl-C"])
def test_a_program_that_ignores_sigterm_does_not_outlive_its_campaign(tmp_path, how):
    silent, pids = subprocess.DEVNULL, tmp_path / "pids"
    words = campaign(tmp_path, STUBBORN, program="{body}")
    command = [sys.executable, "-m", "autotune", *words]
    driver = subprocess.Popen(command, cwd=tmp_path, stdout=silent, stderr=silent)
    while not pids.exists() or not pids.read_text():
        assert driver.poll() is None
        time.sleep(0.02)
    driver.send_signal(how)
    if how is signal.SIGINT:
        time.sleep(0.2)
        driver.send_signal(how)
    assert driver.wait(60) != 0
    (pid,) = map(int, pids.read_text().split())
    deadline = time.monotonic() + 60
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(pid, 0)
            time.sleep(0.05)
