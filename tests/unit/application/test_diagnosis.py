"""What a recorded run loses, to whom, and what of that tuning can win."""

from dataclasses import replace
from pathlib import Path

import pytest

from autotune.application.diagnosis import Advice, diagnose
from autotune.application.diagnosis_text import details, document, sentence
from autotune.application.floor import Floor
from autotune.application.recorded_time import Lateness, LateRank, OtherCalls, Timeline
from autotune.application.recording import RecordedCalls, Recording, mean_of, read_recording
from autotune.recommend.recommendation import Gain

RECORDED = Path(__file__).parents[2] / "data" / "recordings" / "calls.json"


def calls(seconds=2.0, waiting=0.0, n=10_000.0, late=None, **more):
    """Allreduces of four ranks in which a rank spends so many seconds of a run of a hundred."""
    numbers = (4, 8.0, 4 * int(n), n, seconds, waiting)
    return RecordedCalls("allreduce", "blocking", *numbers, lateness=late, **more)


def other(family, operation, seconds, size=65536.0, n=10_000.0, completing_s=0.0):
    row = (family, operation, "node", size, 4 * int(n), n, seconds, seconds, seconds)
    return OtherCalls(*row, completing_s=completing_s)


def run(*its, others=(), **more):
    known = {"other": tuple(others), "timeline": Timeline(1.0, {}), **more}
    return Recording(("app",), 100.0, 99.0, 4, 1, "finalized", "", "", 0.0, 0, its, **known)


def floor(*gains):
    return Floor(gains, ("a=b",) * len(gains), ("a=b",), 9, 60.0)


def gain(best_us, default_us=100.0, collective="allreduce", size=8, sem_us=0.5):
    return Gain((collective, 4, size), best_us * 1e-6, sem_us * 1e-6, default_us * 1e-6, sem_us * 1e-6)


LATE = Lateness(100, "same", None, (LateRank(2, 0.98, 5.0, 0.1), LateRank(0, 0.01, 0.1, 2.0)), outside=1.0)


def test_a_run_without_mpi_is_not_worth_a_thought():
    found = diagnose(run(calls(seconds=0.2)))
    assert found.verdict is Advice.LEAVE
    assert sentence(found) == (
        "Your job spends 0.2 % of its time in MPI. Tuning can win at most 0.2 % of the run: do not bother."
    )


def test_waiting_is_nobodys_to_win_and_the_rank_is_named():
    found = diagnose(run(calls(seconds=6.0, waiting=5.5, late=LATE)))
    assert found.verdict is Advice.LEAVE
    assert sentence(found) == (
        "Your job spends 6.0 % of its time in MPI: 5.5 % waiting in allreduce because rank 2 is late "
        "(imbalance, not MPI), 0.5 % in the rest. Tuning can win at most 0.5 % of the run: do not bother."
    )


@pytest.mark.parametrize(
    ("pattern", "period_s", "said"),
    [
        ("same", None, "because rank 2 is late (imbalance, not MPI)"),
        ("wandering", None, "now one rank and now another is late (imbalance that moves, or noise, not MPI)"),
        ("periodic", 0.5, "because rank 2 is late every 0.5 s (a disturbance at a period, not MPI)"),
        ("none", None, "for late ranks (not MPI)"),
    ],
)
def test_whether_it_is_always_the_same_rank_is_said(pattern, period_s, said):
    late = replace(LATE, pattern=pattern, period_s=period_s)
    told = sentence(diagnose(run(calls(seconds=8, waiting=5.5, late=late))))
    assert said in told.partition("waiting in allreduce ")[2]


@pytest.mark.parametrize(
    ("outside", "most", "said"),
    [
        (1.0, 0.005, "because rank 2 is late (imbalance, not MPI)"),
        (0.95, 0.005 + 0.05 * 0.055, "because rank 2 is late (imbalance, not MPI)"),
        (0.0, 0.005 + 3 * 0.005, "because rank 2 is late (0.0 % of it is known to come from outside of MPI)"),
        (None, 0.005 + 3 * 0.005, "(whether the program or MPI makes them so is not known)"),
    ],
)
def test_waiting_that_mpi_may_have_caused_is_in_the_bound(outside, most, said):
    """Four ranks: a second that MPI takes one of them delays three others by a second at most."""
    late = replace(LATE, outside=outside)
    found = diagnose(run(calls(seconds=6.0, waiting=5.5, late=late)))
    assert found.most == pytest.approx(most)
    assert found.verdict is (Advice.LEAVE if most < 0.01 else Advice.UNMEASURED)
    assert said in sentence(found)


@pytest.mark.parametrize(
    ("times", "verdict"), [(1, Advice.LEAVE), (4, Advice.INCONCLUSIVE), (400, Advice.INCONCLUSIVE)]
)
def test_calls_that_a_setting_may_have_made_slow_are_in_the_bound(times, verdict):
    """The default of the measurement is the best; in the run calls took longer, for whatever reason."""
    slow_s = 0.02 * 100
    found = diagnose(run(calls(seconds=slow_s, n=slow_s / times / 200e-6)), floor(gain(200.0, 200.0)))
    assert found.verdict is verdict
    assert found.most >= 0.02 * (1 - 1 / times)
    assert found.win[0] == pytest.approx(0.0, abs=1e-9)
    told = sentence(found) + details(found, None)
    assert ("do not bother" in told) == (times == 1)
    assert (f"allreduce takes {times} times what this machine does" in told) == (times > 1)


def test_datatypes_of_the_programs_own_are_named_before_partners():
    slow = replace(other("point-to-point", "send", 8.0, n=10_000.0), derived=40_000)
    found = diagnose(run(others=(slow,)), floor(gain(100.0, 100.0, "pingpong", 65536)))
    assert found.verdict is Advice.INCONCLUSIVE
    told = details(found, None)
    assert "send takes 8 times what this machine does: datatypes of the program's own (in 100 % of" in told
    assert "which of these is not known" in told


def test_a_slow_default_can_be_won_back():
    found = diagnose(run(calls(seconds=20.0)), floor(gain(100.0, 1400.0)))
    assert found.verdict is Advice.TUNE
    share, low, high = found.win
    assert share == pytest.approx(0.2 * 13 / 14)
    assert low < share < high
    assert "20 % in allreduce of 8 B, 20 times what this machine does at its best" in sentence(found)


def test_what_the_floor_leaves_is_won_and_no_more():
    """Calls that take in the run what they take by default, a quarter of which is won."""
    found = diagnose(run(calls(seconds=20.0, n=100_000.0)), floor(gain(150.0, 200.0)))
    assert found.win[0] == pytest.approx(0.05)
    assert found.win[1] < 0.05 < found.win[2] < 0.06
    assert "1.3 times what this machine does at its best" in sentence(found)
    assert "conf=application calls=calls.json" in sentence(found)


def test_a_default_that_is_the_best_is_left_alone():
    found = diagnose(run(calls(seconds=20.0, n=100_000.0)), floor(gain(200.0, 200.0)))
    assert found.verdict is Advice.LEAVE
    assert found.most < 0.002


def test_nothing_is_promised_of_calls_that_take_a_hundred_times_what_they_do_alone():
    """Of 20 s a hundredth is what these calls take by default, and half of that could be won."""
    found = diagnose(run(calls(seconds=20.0, n=10_000.0)), floor(gain(10.0, 20.0)))
    assert found.win[2] < 0.002
    assert (found.most > 0.19, found.verdict) == (True, Advice.INCONCLUSIVE)
    assert "nothing is promised of it" in details(found, None).partition("allreduce takes 200 times")[2]


def test_transfers_are_bounded_by_all_of_them_and_promised_as_far_as_the_probe_goes():
    pairs = (
        other("point-to-point", "irecv", 40.0, completing_s=39.0),
        other("point-to-point", "isend", 4.0),
        other("completion", "waitall", 39.5, 0.0, completing_s=39.5),
    )
    without = diagnose(run(others=pairs))
    assert without.verdict is Advice.UNMEASURED
    assert "44 % point-to-point (Waitall, Irecv of 64 KiB)" in sentence(without)
    assert "Tuning can win at most 44 % of the run" in sentence(without)
    found = diagnose(run(others=pairs), floor(gain(90.0, 100.0, "pingpong", 65536)))
    share, low, high = found.win
    assert (low, share) == (0.0, pytest.approx(2 * 10_000 * 100e-6 * 0.1 / 100))
    assert 5 * share < high < 12 * share


def test_files_and_setting_up_are_not_tunings():
    others = (other("files", "file_write_at_all", 3.0, 2**20), other("setup", "comm_dup", 30.0, 0.0))
    found = diagnose(run(others=others))
    assert found.verdict is Advice.LEAVE
    assert "3.0 % in MPI-IO (File_write_at_all of 1 MiB)" in sentence(found)
    assert "30 % setting up communicators and the like (Comm_dup)" in sentence(found)


def test_what_hides_and_what_is_not_seen_is_said():
    hidden = calls(seconds=10.0, seconds_low=9.0, seconds_high=40.0)
    said = sentence(diagnose(run(hidden, threads=3, unseen=("NCCL",))))
    assert "spends 10 % (not known to better than 9 … 40 %) of its time in MPI, over 3 threads" in said
    assert "It also communicates by NCCL, which this does not see." in said


def test_of_a_recording_of_another_tool_only_collectives_are_told():
    said = sentence(diagnose(run(calls(seconds=10.0), timeline=None)))
    assert "in collectives (of other calls of MPI nothing was recorded)" in said


def test_several_runs_widen_what_can_be_won():
    one = run(calls(seconds=20.0, n=100_000.0))
    every = mean_of([one, run(calls(seconds=30.0, n=100_000.0)), run(calls(seconds=10.0, n=100_000.0))])
    alone, several = (diagnose(r, floor(gain(150.0, 200.0))).win for r in (one, every))
    assert several[0] == pytest.approx(alone[0])
    assert several[2] - several[1] > 3 * (alone[2] - alone[1])


def test_the_document_has_the_sentence_and_what_is_behind_it():
    found = diagnose(read_recording(RECORDED.read_text(), "calls.json"))
    told = document(found, None, "calls.json")
    assert told["sentence"] == sentence(found)
    assert "28 % point-to-point (Waitall, Irecv of 64 KiB)" in told["sentence"]
    assert "because rank 3 is late" in told["sentence"]
    assert told["losses"][0]["family"] == "point-to-point"
