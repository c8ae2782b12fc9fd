"""Where samples become observations: times that cannot be are not believed, whatever else was measured."""

import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.campaign.failures import RULE
from autotune.campaign.interruption import heeded
from autotune.campaign.observing import Launches, Measurement, observation
from autotune.errors import Interrupted
from autotune.history.events import observation_event, observation_of
from autotune.history.trial import Phase, Status, Subject, Trial, status_of
from autotune.probe.protocol import REQUEST, RESULT, SAMPLES, CellSamples, ProbeResult
from autotune.space import Point, Space
from autotune.stacks.ports import LaunchOutcome, Placement, Rendering
from hydra_plugins.autotune._mpirun import outcome
from hydra_plugins.autotune._processes import Ended
from tests.asking import probe_request

TRIAL = Trial(1, Phase.BASELINE, Point(), Subject.UNTOUCHED)
FINE = np.array([1.0e-6, 1.1e-6, 1.2e-6, 1.1e-6])


def cell(samples, size=8, status="ok"):
    return CellSamples("allreduce", 2, size, {}, np.asarray(samples, np.float64), status)


def seen(*cells, **figures):
    return observation(TRIAL, LaunchOutcome(Status.OK, result=ProbeResult("ok", cells=cells, **figures)))


IMPOSSIBLE = {
    "zero": [0.0, 0.0, 0.0],
    "negative": [1e-6, -1e-6, 1e-6],
    "below the clock's step": [1e-13, 1.1e-13, 1.2e-13],
    "not a number": [1e-6, math.nan, 1e-6],
    "infinite": [1e-6, math.inf, 1e-6],
    "months": [1e9, 1.1e9, 1.2e9],
    "one call of three a million times as long": [1e-6, 1e-6, 3.0],
}


@pytest.mark.parametrize("samples", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
@pytest.mark.parametrize("estimator", ["median", "mean", "minimum"])
def test_what_no_call_can_take_is_not_usable_and_says_why(samples, estimator):
    result = ProbeResult("ok", cells=(cell(samples), cell(FINE, 1024)))
    made = observation(TRIAL, LaunchOutcome(Status.OK, result=result), estimator)
    wild, fine = made.estimates
    if (estimator, max(samples)) not in (("minimum", 3.0), ("mean", 3.0)):  # they know less of a spread
        assert wild.status is Status.INVALID
        assert wild.reason
        assert math.isnan(wild.median_s)
    assert fine.status is Status.OK
    assert made.ok


def test_a_launch_in_which_nothing_can_be_believed_is_invalid_itself():
    made = seen(cell([0.0, 0.0]))
    assert made.status is Status.INVALID
    assert "no time" in made.reason


def test_a_single_call_below_the_clocks_step_does_not_spoil_its_cell():
    made = seen(cell([0.0, *FINE, *FINE]))
    assert made.estimates[0].status is Status.OK


def test_responses_of_a_program_have_no_clock():
    result = ProbeResult("ok", cells=(CellSamples("loss", 1, 1, {}, np.array([1e-12, 1.1e-12, 1e-12])),))
    assert observation(TRIAL, LaunchOutcome(Status.OK, result=result)).ok


@pytest.mark.parametrize("value", [-1.0, math.inf, 1e300])
def test_other_figures_that_cannot_be_are_left_out(value):
    made = seen(cell(FINE), memory_bytes=value, overhead_s=value)
    assert made.ok
    assert made.extra == {}


def test_a_clock_that_jumped_leaves_no_duration():
    result = ProbeResult("ok", cells=(cell(FINE),))
    for duration_s in (-3.0, math.nan, math.inf):
        assert (
            observation(TRIAL, LaunchOutcome(Status.OK, result=result, duration_s=duration_s)).duration_s == 0
        )


def test_the_reason_of_a_cell_survives_the_journal():
    made = seen(cell([0.0]), cell(FINE, 1024))
    event = json.loads(json.dumps(observation_event(made)))
    assert [("reason" in e) for e in event["estimates"]] == [True, False]
    assert observation_of(event, TRIAL).estimates[0].reason == made.estimates[0].reason


@pytest.mark.parametrize(
    "result",
    [
        ProbeResult("splendid", cells=(cell(FINE),)),
        ProbeResult("ok", cells=(cell(FINE, status="splendid"),)),
    ],
)
def test_a_status_that_nobody_knows_is_invalid(result):
    made = observation(TRIAL, LaunchOutcome(*status_of(result.status, ""), result=result))
    assert made.status is Status.INVALID
    assert "splendid" in made.reason


class Untouched:
    """A stack without words."""

    def render(self, space, trial, collectives):
        return Rendering()


class Left:
    """A launcher whose launches leave what a test put there."""

    def __init__(self, leave):
        self.leave = leave

    def run(self, request):
        self.leave(request.directory)
        return outcome(request.directory, Ended(0, 1.0))


def launched(tmp_path, leave, trial=TRIAL, probe=None, **measured):
    asked = probe or probe_request(("allreduce",), (8, 1024), ranks=2)
    measuring = Measurement(asked, 1.0, **measured)
    return Launches(Untouched(), Left(leave), Placement(2), measuring, Space("none", ()), tmp_path).observe(
        trial
    )


class Attempts:
    """A launcher whose attempts end as a test says, each with an exit code; the last one is repeated."""

    def __init__(self, *codes):
        self.codes, self.made = list(codes), 0

    def run(self, request):
        assert sorted(path.name for path in request.directory.iterdir()) == [REQUEST]  # nothing of others
        self.made += 1
        (request.directory / "stderr").write_text("words of this attempt")
        code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        if code == "measured":
            whole(request.directory)
            code = 0
        return outcome(request.directory, Ended(code, 1.0))


def attempted(tmp_path, *codes):
    launcher, asked = Attempts(*codes), probe_request(("allreduce",), (8, 1024), ranks=2)
    space = Space("none", ())
    observer = Launches(Untouched(), launcher, Placement(2), Measurement(asked, 1.0), space, tmp_path)
    return observer.observe(TRIAL), launcher.made


@pytest.mark.parametrize("code", [0, *(-number for number in (1, 2, 9, 15))])
def test_a_launch_that_is_lost_is_made_again_and_says_so(tmp_path, code):
    """By a launcher that returned 0 without a result, or that itself was ended by a signal."""
    seen, made = attempted(tmp_path, code, "measured")
    assert (seen.status, made, seen.lost_before) == (Status.OK, 2, 1)
    assert [note for note in seen.notes if note.startswith("made again: ")]


def test_one_that_is_lost_each_time_stays_lost(tmp_path):
    seen, made = attempted(tmp_path, 0)
    assert (seen.status, made, seen.lost_before) == (Status.LOST, RULE.attempts, RULE.attempts - 1)
    assert seen.reason.startswith("lost 3 times in a row: the launcher returned 0")


@pytest.mark.parametrize("code", [1, 139, 137, -11, None], ids=str)
def test_one_that_fails_by_itself_is_not_made_again(tmp_path, code):
    """A rank that was killed is 137: of a launcher that reports it, and for want of memory."""
    seen, made = attempted(tmp_path, code, "measured")
    assert (seen.ok, made, seen.lost_before) == (False, 1, 0)


@pytest.mark.parametrize("code", [0, 1, 143], ids=str)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_ends_us_may_end_the_launch_first_which_is_no_observation_in_any_verb(tmp_path, code, number):
    class Ending(Attempts):
        def run(self, request):
            os.kill(os.getpid(), number)
            return super().run(request)

    launcher, asked = Ending(code), probe_request(("allreduce",), (8, 1024), ranks=2)
    space = Space("none", ())
    observer = Launches(Untouched(), launcher, Placement(2), Measurement(asked, 1.0), space, tmp_path)
    with pytest.raises(Interrupted), heeded():
        observer.observe(TRIAL)
    assert launcher.made == 1


def test_a_job_that_did_not_start_in_its_time_is_not_waited_for_again(tmp_path):
    class Queued:
        made = 0

        def run(self, request):
            self.made += 1
            return LaunchOutcome(Status.LOST, "never started", queue_s=6.0, given_up=True)

    launcher, asked = Queued(), probe_request(("allreduce",), (8, 1024), ranks=2)
    space = Space("none", ())
    seen = Launches(Untouched(), launcher, Placement(2), Measurement(asked, 1.0), space, tmp_path).observe(
        TRIAL
    )
    assert (launcher.made, seen.status, seen.never_ran) == (1, Status.LOST, True)


def whole(directory):
    cells = (cell(FINE), cell(FINE * 2, 1024))
    ProbeResult("ok", cells=cells, hosts=("here",), notes=("a note",)).write(directory)


def test_a_whole_result_is_believed(tmp_path):
    assert launched(tmp_path, whole).ok


@pytest.mark.parametrize(
    ("size", "twice"), [(9, False), (8, True)], ids=["a size nobody asked for", "a size twice"]
)
def test_cells_that_were_not_asked_for_make_the_launch_invalid(tmp_path, size, twice):
    cells = (cell(FINE), cell(FINE, size)) if twice else (cell(FINE, size),)
    made = launched(tmp_path, lambda directory: ProbeResult("ok", cells=cells).write(directory))
    assert made.status is Status.INVALID
    assert "asked for" in made.reason


DAMAGED = {
    "half a file": '{"version": 1, "status": "ok", "cel',
    "deep": "[" * 100_000,
    "deep inside": '{"version": 1, "status": "ok", "cells": ' + '{"a":' * 100_000,
    "no object": "[]",
    "wrong types": '{"version": 1, "status": "ok", "cells": 7}',
    "cells that are none": '{"version": 1, "status": "ok", "cells": [7]}',
    "values that are none": '{"version": 1, "status": "ok", "cells": [{"collective": "allreduce",'
    ' "comm_size": 2, "message_bytes": 8, "values": {"a": [1]}, "status": "ok"}]}',
    "huge": '{"version": 1, "status": "ok", "cells": [{"collective": "allreduce",'
    ' "comm_size": 1' + 300 * "0" + ', "message_bytes": 8, "values": {}}]}',
    "a number where a word is": '{"version": 1, "status": 7, "cells": []}',
    "another version": '{"version": 99}',
    "no text": "\udcff\udcfe",
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_result_is_that_launchs_invalid(tmp_path, text):
    def leave(directory):
        whole(directory)
        (directory / RESULT).write_bytes(text.encode(errors="surrogateescape"))

    made = launched(tmp_path, leave)
    assert made.status is Status.INVALID
    assert made.reason
    assert "\n" not in made.reason


@settings(max_examples=150)
@given(name=st.sampled_from([RESULT, SAMPLES]), data=st.data())
def test_flipped_bits_in_a_result_never_end_the_campaign(tmp_path_factory, name, data):
    def leave(directory):
        whole(directory)
        damaged = bytearray((directory / name).read_bytes())
        at = data.draw(st.integers(0, len(damaged) * 8 - 1), "bit")
        damaged[at // 8] ^= 1 << at % 8
        (directory / name).write_bytes(damaged)

    made = launched(tmp_path_factory.mktemp("flipped"), leave)
    unharmed = {e.median_s for e in launched(tmp_path_factory.mktemp("whole"), whole).usable}
    assert {e.median_s for e in made.usable} <= unharmed
    assert made.ok or made.reason


def test_variables_that_a_launch_may_not_see_are_taken_from_its_ranks_alone(tmp_path, monkeypatch):
    """The launcher is started in the environment of whoever launches, and may hand it on."""
    monkeypatch.setenv("UCX_NEW", "here")
    printed = []

    class Runs:
        def run(self, request):
            words = request.program[: request.program.index(sys.executable)]
            code = "import os; print(os.environ.get('UCX_NEW'), os.environ.get('UCX_KEPT'))"
            command, env = [*words, sys.executable, "-c", code], {**os.environ, "UCX_KEPT": "too"}
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
            printed.append(done.stdout.split())
            return outcome(request.directory, Ended(1, 1.0))

    for unset in (("UCX_NEW", "UCX_OTHER"), ()):
        amended = {"amended": lambda rendering, names=unset: replace(rendering, unset=names)}
        measuring = Measurement(probe_request(("allreduce",), (8,), ranks=2), 1.0, **amended)
        Launches(Untouched(), Runs(), Placement(2), measuring, Space("none", ()), tmp_path).observe(TRIAL)
    assert printed == [["None", "too"], ["here", "too"]]
