"""A campaign as it goes: plain lines without a terminal, a bar with one."""

import io
import math
from dataclasses import replace

import pytest
from rich.console import Console

from autotune.campaign.costs import Share
from autotune.campaign.needed import Need
from autotune.campaign.ports import Listener
from autotune.history.objectives import Score
from autotune.history.trial import Observation, Phase, Status, Subject, Trial
from autotune.recommend.recommendation import Checked
from autotune.recommend.summary import Step, steps
from autotune.space import Point
from autotune.views.console import CampaignConsole, Detail
from autotune.views.standing import Ending
from tests import example

PHASES = [Share(name, n, n, 0.5) for name, n in (("baseline", 2), ("screening", 8), ("search", 10))]


def play(console, ran, detail=Detail.NORMAL):
    with CampaignConsole(console, example.OBJECTIVES, ran.space.unset, PHASES, detail) as shown:
        listener: Listener = shown
        shown.opening("example: MPI_Allreduce on 2 ranks", "SIMULATED", [("UCX", "1.20")], ran.space.dropped)
        shown.planned(60.0)
        listener.phase(Phase.BASELINE, 2)
        listener.designed(ran.design)
        listener.screened(ran.effects, ran.screening)
        for i, step in enumerate(steps(example.OBJECTIVES, ran.space, ran.history)):
            listener.launching(step.observation.trial, 10.0 * i, 130.0)
            listener.observed(step)
        shown.closing(ran.space, ran.history, ran.recommendation, ran.baseline_scores)
        shown.exported(["dir/openmpi-mca-params.conf"])
        shown.usable("mpirun --mca pml ucx ./your_program", "")


@pytest.fixture(scope="module")
def ran():
    return example.campaign()


def console(terminal=False, width=80):
    return Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)


def lines_of(shown):
    return [line.rstrip() for line in shown.file.getvalue().splitlines()]


def ended(
    shown, number, scores, best, status=Status.OK, phase=Phase.SEARCH, extra=None, leads=False, **trial
):
    """A launch that ended, of a campaign whose default has a latency of 2 µs and 6 GB/s."""
    base = (Score(2.0, 0.04), Score(6.0, 0.1))
    made = Trial(number, phase, trial.pop("point", Point()), **trial)
    observation = Observation(
        made, status, reason="ended after 60 s [rank 1]", duration_s=2, extra=extra or {}
    )
    shown.launching(made, 60.0 * number, 90.0)
    shown.observed(Step(observation, scores, best, base, leads))


def test_each_launch_says_where_it_is_what_is_tried_and_what_it_does():
    plain = console()
    unset = Point.of({"UCX_RNDV_THRESH": "auto", "pml": "ob1", "UCX_TLS": "all"})
    shown = CampaignConsole(plain, example.OBJECTIVES, unset, PHASES)
    best = (Score(1.0, 0.01), Score(8.0, 0.1))
    ended(
        shown, 1, (Score(2.0, 0.04), Score(6.0, 0.1)), None, phase=Phase.BASELINE, subject=Subject.UNTOUCHED
    )
    shown.phase(Phase.SEARCH, 10)
    one = unset.replace(UCX_RNDV_THRESH="64k", pml="ucx")
    ended(shown, 2, (Score(1.0, 0.01), Score(5.4, 0.1)), best, point=one, leads=True)
    ended(shown, 3, (Score(1.6, 0.02), Score(8.0, 0.1)), best, point=one.replace(UCX_TLS="self,sysv,posix"))
    ended(shown, 4, None, best, Status.NOT_APPLIED, point=one)
    ended(shown, 75, None, best)
    assert lines_of(plain) == [
        "  1/3     1:02     ≤ 1:28  default                            2.00 µs  6.00 GB/s",
        "",
        "Columns: phase, elapsed and longest remaining time (m:ss), the setting tried,",
        "and its speed-up over the baseline (above 1 is better; * best so far).",
        "",
        "Phase 3 of 3, search: the best values of the parameters that matter",
        "phase  elapsed       left  tried                              latency  bandwidth",
        "  3/3     2:02     ≤ 1:26  UCX_RNDV_THRESH=64k, pml=ucx        2.00×*     0.90×",
        "  3/3     3:02     ≤ 1:24  UCX_RNDV_THRESH=64k,                1.25×      1.33×",
        "                           UCX_TLS=self,sysv,posix, pml=ucx",
        "  3/3     4:02     ≤ 1:22  UCX_RNDV_THRESH=64k, pml=ucx     failed",
        "                           not applied, launch 4: ended after 60 s [rank 1]",
        "  3/3  1:15:02     ≤ 1:20  default, each algorithm          incomplete",
        "                           some sizes have no usable time",
    ]


def test_the_time_left_never_rises():
    shown = CampaignConsole(plain := console(), example.OBJECTIVES, phases=PHASES)
    for number, left_s in enumerate((math.inf, 90.0, 200.0, 40.0), start=1):
        made = Trial(number, Phase.SEARCH, Point())
        shown.launching(made, 10.0 * number, left_s)
        shown.observed(Step(Observation(made, Status.CRASHED, duration_s=5), None, None, None))
    left = [line[16:25].strip() for line in lines_of(plain) if line.startswith("  3/3")]
    assert left == ["—", "≤ 1:25", "≤ 1:20", "≤ 0:35"]


def test_launches_of_a_model_use_up_no_time_that_has_not_passed():
    shown = CampaignConsole(plain := console(), example.OBJECTIVES, phases=PHASES)
    for number in range(3):
        shown.launching(Trial(number, Phase.SEARCH, Point()), 1.0 * number, 60.0 - number)
        for trial in (Trial(number, Phase.SEARCH, Point()),) * 2:  # alive at once, each with its share
            shown.observed(Step(Observation(trial, Status.CRASHED, duration_s=4), None, None, None))
    left = [line[16:25].strip() for line in lines_of(plain) if line.startswith("  3/3")]
    assert left == ["≤ 0:56", "≤ 0:52", "≤ 0:52", "≤ 0:51", "≤ 0:51", "≤ 0:50"]


def test_interference_is_said_once_and_by_launch_only_if_asked():
    busy = {"machine_cores": 2.0, "other_load_cores": 0.8}
    scores = (Score(1.0, 0.02), Score(5.4, 0.1))
    for detail, times in ((Detail.QUIET, 0), (Detail.NORMAL, 1), (Detail.VERBOSE, 4)):
        shown = CampaignConsole(plain := console(), example.OBJECTIVES, phases=PHASES, detail=detail)
        for number in (1, 2, 3):
            ended(shown, number, scores, None, extra=busy)
        assert plain.file.getvalue().count("interference: other work on 0.8 of 2 cores") == times


def test_verbose_adds_the_figures_of_each_launch():
    shown = CampaignConsole(plain := console(), example.OBJECTIVES, phases=PHASES, detail=Detail.VERBOSE)
    ended(shown, 7, (Score(1.0, 0.02), Score(5.4, 0.1)), None, note="a leader again")
    assert " ".join(" ".join(lines_of(plain)[1:]).split()) == (
        "launch 7 · a leader again · latency 1.00 ± 0.02 µs · bandwidth 5.40 ± 0.10 GB/s"
    )


def test_quiet_prints_the_result_alone(ran):
    play(plain := console(), ran, Detail.QUIET)
    lines = lines_of(plain)
    assert lines[:3] == [
        "example: MPI_Allreduce on 2 ranks  SIMULATED",
        "",
        "Result: speed-up over the baseline in the search, above 1 is better",
    ]
    assert lines[-2:] == ["use them with", "  mpirun --mca pml ucx ./your_program"]
    assert not any("phase" in line for line in lines)


def test_a_whole_campaign_without_a_terminal(ran):
    play(plain := console(), ran)
    lines = lines_of(plain)
    assert lines[0] == "example: MPI_Allreduce on 2 ranks  SIMULATED"
    assert "\x1b" not in plain.file.getvalue()
    assert sum(line[2:5] in ("1/3", "2/3", "3/3") for line in lines) == len(ran.history)
    assert "crashed, launch 13: signal 6 on rank 1" in map(str.strip, lines)
    headings = [
        "Phase 1 of 3, baseline: the stack's own defaults",
        "Main effects on latency (less is better)",
        "Result: speed-up over the baseline in the search, above 1 is better",
        "The unverified setting by message size",
        "MPI_Allreduce on 2 ranks",
        "Files",
    ]
    assert [line for line in lines if line in headings] == headings
    assert any(line.startswith("speed-up over all sizes, geometric mean: 1.51× (1.4") for line in lines)
    assert lines[-2:] == ["use them with", "  mpirun --mca pml ucx ./your_program"]


def test_no_line_that_is_laid_out_here_is_wider_than_80_columns(ran):
    for detail in Detail:
        play(plain := console(), ran, detail)
        assert [line for line in lines_of(plain) if len(line) > 80] == []


def verified(ran, **fields):
    source = replace(ran.recommendation.provenance, checked=Checked.HOLDS, verified="verified: x", **fields)
    return replace(ran, recommendation=replace(ran.recommendation, provenance=source))


def test_what_is_not_verified_is_not_marked_as_what_to_use_and_not_green(ran):
    colourful = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard")
    shown = CampaignConsole(colourful, example.OBJECTIVES, ran.space.unset, PHASES)
    shown.closing(ran.space, ran.history, ran.recommendation, ran.baseline_scores)
    assert "\x1b[32m" not in colourful.file.getvalue()
    play(plain := console(), ran)
    lines = lines_of(plain)
    assert not any("recommended" in line for line in lines if "against" not in line)
    marked = next(i for i, line in enumerate(lines) if line.startswith("▶"))
    assert "the stack's own defaults" in lines[marked]
    assert lines[marked + 1].strip() == "to use until a setting is verified"


def test_a_verdict_is_told_in_labelled_lines(ran):
    long = "which no launch exceeds " * 4
    lines = (
        ("speed-up", "1.51× (1.45 … 1.57) on 24 fresh launches"),
        ("loss", "at most 2 %"),
        ("long", long),
    )
    play(plain := console(), verified(ran, verdict=lines))
    told = lines_of(plain)
    at = told.index("Verified")
    assert told[at + 2 : at + 4] == [f"  {label:<8}  {text}" for label, text in lines[:2]]
    assert [line[:12].strip() for line in told[at + 4 : at + 6]] == ["long", ""]
    assert " ".join(line[12:] for line in told[at + 4 : at + 6]).split() == long.split()
    assert "verified: x" not in told


def test_how_a_campaign_stands_is_told_in_labelled_lines_with_the_command_alone_on_its_own():
    state = Ending("the stack's own defaults", "x: 1.08×", "launches differ", "python3 -m autotune c", 480.0)
    CampaignConsole(plain := console(), example.OBJECTIVES).ended(state)
    assert lines_of(plain) == [
        "",
        "Use now    the stack's own defaults",
        "Promising  x: 1.08×",
        "Why        launches differ",
        "Go on with about 8 minutes more:",
        "  python3 -m autotune c",
    ]


def test_before_the_verification_begins_its_time_is_told_and_is_yellow_if_it_is_not_left():
    need = Need(None, None, math.log(1.11), "launches of one setting", 0, 12, 480.0)
    for left_s, colour in ((150.0, True), (900.0, False)):
        terminal = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="standard")
        CampaignConsole(terminal, example.OBJECTIVES).forecast(need, left_s)
        text = terminal.file.getvalue()
        left = "2:30" if colour else "15:00"
        said = f"launches of one setting differ by 11.0 %: a verdict needs about 8 minutes, {left} are left"
        assert said in text and ("\x1b[33m" in text) == colour


def test_the_result_holds_the_recommended_setting_and_says_why_others_are_not_it(ran):
    play(plain := console(), verified(ran))
    text = plain.file.getvalue()
    result = text[text.index("Result: ") : text.index("by message size")]
    assert result.count("▶") == 1
    assert "▶   UCX_RNDV_THRESH=4k, UCX_TLS=self,sysv" in result
    assert "the stack's own defaults" in result
    assert "not chosen: against the recommended setting latency" in result
    assert "0.91×, bandwidth 1.01×: worse overall" in result


@pytest.mark.parametrize("colours", [True, False])
def test_no_color_takes_the_colours_away(ran, monkeypatch, colours):
    monkeypatch.setenv("NO_COLOR", "" if colours else "1")
    terminal = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard")
    play(terminal, ran)
    assert ("\x1b[32m" in terminal.file.getvalue()) == colours
    assert "\x1b[1m" in terminal.file.getvalue()  # bold is no colour


def test_a_terminal_shows_phase_best_and_time(ran):
    play(shown := console(terminal=True, width=120), ran)
    text = shown.file.getvalue()
    assert "phase 1/3 baseline · 0:00 elapsed, ≤ 2:10 left" in text
    assert "best latency 1.44×, bandwidth 1.64×" in text
    assert "━" in text


def test_the_bar_goes_away_when_the_campaign_ends_early(ran):
    terminal = console(terminal=True)
    with pytest.raises(KeyboardInterrupt), CampaignConsole(terminal, example.OBJECTIVES) as shown:
        shown.launching(ran.history.observations[0].trial, 0.0, 60.0)
        raise KeyboardInterrupt
    assert (
        terminal.file.getvalue().endswith("\x1b[?25h\r\x1b[1A\x1b[2K")
        or "\x1b[?25h" in terminal.file.getvalue()
    )
