"""A campaign as it goes: plain lines without a terminal, a bar with one."""

import io

import pytest
from rich.console import Console

from autotune.campaign.ports import Listener
from autotune.history.objectives import Score
from autotune.history.trial import Observation, Phase, Status, Subject, Trial
from autotune.recommend.summary import Step, steps
from autotune.space import Point
from autotune.views.console import CampaignConsole
from tests import example


def play(console, ran):
    with CampaignConsole(console, example.OBJECTIVES) as shown:
        listener: Listener = shown
        shown.opening("example: MPI_Allreduce on 2 ranks", "SIMULATED", [("UCX", "1.20")], ran.space.dropped)
        listener.phase(Phase.BASELINE, 2)
        listener.designed(ran.design)
        listener.screened(ran.effects, ran.screening)
        for step in steps(example.OBJECTIVES, ran.space, ran.history):
            listener.launching(step.observation.trial, step.observation.trial.number, 20, 130.0)
            listener.observed(step)
        shown.closing(ran.space, ran.history, ran.recommendation, ran.baseline_scores)
        shown.exported(["dir/openmpi-mca-params.conf"])
        shown.usable("mpirun --mca pml ucx … your_program", "")


@pytest.fixture(scope="module")
def ran():
    return example.campaign()


def console(terminal=False):
    return Console(file=io.StringIO(), width=100, force_terminal=terminal, color_system=None)


def test_every_launch_is_one_plain_line():
    plain = console()
    shown = CampaignConsole(plain, example.OBJECTIVES)
    base, best = (Score(2.0, 0.04), Score(6.0, 0.1)), (Score(1.0, 0.01), Score(8.0, 0.1))

    def ended(number, scores, best, status=Status.OK, reason="", subject=Subject.SWEEP):
        trial = Trial(number, Phase.SEARCH, Point(), subject)
        shown.launching(trial, number, 120, 60.0)
        shown.observed(Step(Observation(trial, status, reason=reason), scores, best, base))

    ended(1, base, None, subject=Subject.UNTOUCHED)
    ended(2, (Score(1.5, 0.02), Score(8.0, 0.1)), best)
    ended(3, None, best, Status.TIMEOUT, "ended after 60 s [rank 1]")
    ended(40, None, best)
    assert plain.file.getvalue().splitlines() == [
        "trial   1 of 120  latency 2.00 ± 0.04 µs · bandwidth 6.00 ± 0.10 GB/s  (default)",
        "trial   2 of 120  latency 1.50 ± 0.02 µs · bandwidth 8.00 ± 0.10 GB/s"
        "  best 1.00 µs (2.00×), 8.00 GB/s (1.33×)",
        "trial   3 of 120  timeout: ended after 60 s [rank 1]",
        "trial  40 of 120  ok, but not every size could be used",
    ]


def test_a_whole_campaign_without_a_terminal(ran):
    plain = console()
    play(plain, ran)
    lines = [line.rstrip() for line in plain.file.getvalue().splitlines()]
    assert lines[0] == "example: MPI_Allreduce on 2 ranks  SIMULATED"
    assert "\x1b" not in plain.file.getvalue()
    assert sum(line.startswith("trial ") for line in lines) == len(ran.history)
    assert "trial 13 of 20  crashed: signal 6 on rank 1" in lines
    headings = [
        "Baseline: the stack's own defaults (2 launches)",
        "Main effects on latency (less is better)",
        "Pareto front",
        "Recommended: change UCX_RNDV_THRESH=4k, UCX_TLS=self,sysv",
        "MPI_Allreduce on 2 ranks",
        "Files",
    ]
    assert [line for line in lines if line in headings] == headings
    assert any(line.startswith("speed-up over all sizes, geometric mean: 1.51× (1.4") for line in lines)
    assert lines[-2:] == ["use them with", "  mpirun --mca pml ucx … your_program"]


def test_a_terminal_shows_place_best_and_time_left(ran):
    shown = console(terminal=True)
    play(shown, ran)
    text = shown.file.getvalue()
    assert "trial 16 of 20 · search" in text
    assert "2 min 10 s left" in text
    assert "━" in text


def test_the_bar_goes_away_when_the_campaign_ends_early(ran):
    terminal = console(terminal=True)
    with pytest.raises(KeyboardInterrupt), CampaignConsole(terminal, example.OBJECTIVES) as shown:
        shown.launching(ran.history.observations[0].trial, 1, 20, 60.0)
        raise KeyboardInterrupt
    assert (
        terminal.file.getvalue().endswith("\x1b[?25h\r\x1b[1A\x1b[2K")
        or "\x1b[?25h" in terminal.file.getvalue()
    )
