"""A scenario out of a recording: what takes the time, and nothing that was said otherwise."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from autotune.application.profiles import read_profile
from autotune.application.reach import predicted, savings
from autotune.application.recorded_time import OtherCalls, Started
from autotune.application.recording import RecordedCalls, Recording
from autotune.application.scenario import baseline, of_recording, overriding, sentence, worth_text
from autotune.cli import main
from autotune.errors import ExitCode, ScenarioError
from autotune.history.trial import Rule
from autotune.recommend.other_calls import OtherCall, OtherDecision
from autotune.recommend.recommendation import Gain, Provenance, Recommendation
from autotune.space import Point


def calls(collective, size, seconds, comm_size=4, waiting=0.0, kind="blocking"):
    return RecordedCalls(collective, kind, comm_size, size, 4000, 1000.0, seconds, waiting)


RUN = Recording(
    ("mpirun.openmpi", "-n", "4", "./app"),
    *(100.0, 99.0, 4, 1, "finalized", "Open MPI", "2026-01-01", 0.0, 0),
    calls=(
        calls("allreduce", 8192.0, 10.0),
        calls("alltoall", 512.0, 5.0, comm_size=2),
        calls("allreduce", 7000.0, 4.0),
        calls("bcast", 1e6, 0.01),
        calls("barrier", 0.0, 3.0),
        calls("reduce", 64.0, 50.0, waiting=49.99),
        calls("alltoallw", 64.0, 50.0),
        calls("gather", 64.0, 50.0, kind="non-blocking"),
    ),
)


@pytest.fixture
def kept(tmp_path):
    """Write a recording, and return its path."""

    def write(run, **changes):
        path = tmp_path / "calls.json"
        path.write_text(json.dumps(replace(run, **changes).document()))
        return path

    return write


@pytest.fixture
def recorded(kept):
    return kept(RUN)


def test_the_scenario_is_where_the_time_is(recorded):
    filled = of_recording({"calls": str(recorded)})
    assert filled["collective"] == ["allreduce", "alltoall", "barrier"]
    assert filled["sizes"] == [512, 7832]  # of 7000 and 8192 bytes the mean of the logarithms, by time
    assert filled["cluster"] == {"nodes": 1, "comm_sizes": [2, 4], "ranks": 4}
    assert filled["mpi"] == {"mpirun": "mpirun.openmpi"}
    assert filled["objective"] == {"weights": str(recorded)}
    assert "calls" not in filled


def messages(operation, size, seconds, count, family="point-to-point"):
    row = (family, operation, "node", size, 4 * count, float(count), seconds, seconds, seconds)
    return OtherCalls(*row)


HALO = replace(
    RUN,
    calls=(calls("allreduce", 8.0, 1.0), calls("allreduce", 64.0, 9.0, kind="non-blocking")),
    other=(
        messages("isend", 8192.0, 20.0, 4_000_000),
        messages("irecv", 8192.0, 20.0, 4_000_000),
        messages("recv", 512.0, 5.0, 100),
        messages("rput", 64.0, 2.0, 100, "one-sided"),
        messages("file_write_at", 64.0, 30.0, 100, "files"),
        messages("waitall", 0.0, 3.0, 100, "completion"),
    ),
)


def test_a_halo_code_is_tuned_for_its_messages(kept):
    path = kept(HALO)
    filled = of_recording({"calls": str(path)})
    assert filled["collective"] == ["halo", "iallreduce", "pingpong", "put"]
    assert filled["sizes"] == [64, 512, 8192]
    assert filled["cluster"]["comm_sizes"] == [4]
    slots = [("halo", 4, 8192), ("iallreduce", 4, 64), ("put", 4, 64), ("pingpong", 4, 512)]
    weights = read_profile(path.read_text(), "calls.json").weights(slots, dict.fromkeys(slots, 1e-6))
    assert weights == pytest.approx(dict(zip(slots, (40 / 56, 9 / 56, 2 / 56, 5 / 56), strict=True)))


def test_what_messages_save_has_waiting_in_it_and_what_is_not_covered_is_said():
    """8 x 10^6 messages of a grid of two dimensions are a million halos, of 30 us by default: 30 of 40 s."""
    gains = (
        Gain(("halo", 4, 8192), 15e-6, 0.0, 30e-6, 0.0),
        Gain(("pingpong", 4, 512), 1e-6, 0.0, 2e-6, 0.0),
    )
    best = Recommendation(Point(), (), gains)
    saved, low, high = predicted(savings(HALO, best.gains).seconds, 0.0)
    assert (saved, low, high) == pytest.approx((15.0 + 1e-4, 0.0, 22.5))
    said = sentence(HALO, best)
    assert "45 s in messages that were measured, waiting included" in said
    assert "35 s in calls that were not covered (completion, files, one-sided)" in said
    assert "not covered" not in sentence(RUN, best)


def tuned(*others, env=()):
    """An allreduce of 8 KiB takes half the time, with these effects on other calls."""
    gain = Gain(("allreduce", 4, 8192), 5e-3, 0.0, 10e-3, 0.0)
    return Recommendation(Point(), (), (gain,), Provenance(ranks=4, env=env), others=others)


def barrier(ratio, error=0.0, tight=False):
    decision = OtherDecision.SLOWER if ratio < 1 else OtherDecision.NOT_SLOWER
    times = (3e-3, 3e-3 / ratio, ratio, ratio, ratio)
    return OtherCall("barrier", 0, *times, error, ratio, decision, tight)


def test_other_calls_of_the_run_count_by_their_recorded_time(recorded):
    """Half of 14 s of allreduces are saved, and 3 s of barriers become 6 s."""
    assert predicted(savings(RUN, tuned().effects).seconds, 0.0)[0] == pytest.approx(7.0)
    slowed = tuned(barrier(0.5, 0.1), barrier(0.25, tight=True))
    saved, low, high = predicted(savings(RUN, slowed.effects).seconds, 0.0)
    assert saved == pytest.approx(4.0)
    assert low < 4.0 < high
    assert "save 4 s (" in sentence(RUN, slowed)


def test_what_the_harmless_setting_is_worth_to_the_run_is_said_where_the_best_slows_calls(recorded):
    about = SimpleNamespace(scenario=SimpleNamespace(objective=SimpleNamespace(weights=str(recorded))))
    said = worth_text(about, tuned(barrier(0.25)), tuned(barrier(1.0)))
    assert "do not save: -2 s (" in said
    assert said.endswith("; the best setting that slows no other call saves 7 s (--choice harmless)")
    assert "harmless" not in worth_text(about, tuned(barrier(1.0)), tuned(barrier(1.0)))
    assert "harmless" not in worth_text(about, tuned(barrier(0.25)), None)


def test_what_was_said_is_kept(recorded):
    said = {
        "calls": str(recorded),
        "collective": "bcast",
        "sizes": "8..1k",
        "cluster": {"nodes": 2, "ppn": 8, "ranks": None, "comm_sizes": [16]},
        "mpi": {"mpirun": "mpirun"},
    }
    filled = of_recording(said)
    assert all(filled[key] == said[key] for key in ("collective", "sizes", "cluster", "mpi"))


@pytest.mark.parametrize("word", [None, "???"])
def test_a_recording_is_needed(word):
    with pytest.raises(ScenarioError, match="not given"):
        of_recording({"calls": word})


def test_a_run_without_anything_to_tune_is_told_so(kept):
    with pytest.raises(ScenarioError, match=r"nothing that could be tuned: .*alltoallw \(blocking\)"):
        of_recording({"calls": str(kept(RUN, calls=RUN.calls[-2:]))})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--figure", "x"], "add --app"),
        (["--app", "--figure", "(", "--", "true"], "--figure='('"),
        (["--app", "--figure", r"(a)\1", "--", "true"], "no back-references"),
        (["--app", "--figure", "x", "--", "true"], "has 0 groups"),
        (["--app", "--more-is-better", "--", "true"], "needs --figure"),
        (["--app", "--against", "x", "--", "true"], "leave --against out"),
        (["--app", "--", "true"], "no campaign"),
    ],
)
def test_wrong_words_of_verify(words, message, tmp_path, capsys):
    assert main(["verify", str(tmp_path), *words]) == ExitCode.MISTAKE
    assert message in capsys.readouterr().err


def test_a_program_of_its_own_is_no_application(tmp_path, capsys):
    assert main(["record", "--out", str(tmp_path / "c.json"), "--", "no-such-program"]) == ExitCode.MISTAKE
    assert "is not a program that can be found" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("runs", ["0", "-1", "some"])
def test_a_run_at_least_is_recorded(runs, tmp_path, capsys):
    out = tmp_path / "c.json"
    assert main(["record", "--runs", runs, "--out", str(out), "--", "true"]) == ExitCode.MISTAKE
    assert "--runs" in capsys.readouterr().err
    assert not out.exists()


def test_no_campaign_is_started_for_less_than_a_per_cent_of_a_run(kept, capsys):
    path = kept(RUN, calls=(calls("allreduce", 8.0, 0.2),))
    assert main(["plan", "conf=application", f"calls={path}"]) == ExitCode.MISTAKE
    said = capsys.readouterr().err
    assert "Tuning can win at most 0.2 % of the run: do not bother." in said
    assert "--anyway" in said
    assert of_recording({"calls": str(path), "anyway": True})["collective"] == ["allreduce"]


@pytest.mark.mpi
def test_a_campaign_is_composed_anyway(kept, capsys):
    path = kept(RUN, command=(), calls=(calls("allreduce", 8.0, 0.2),))
    words = ["conf=application", f"calls={path}", "--anyway", "cluster.oversubscribe=true"]
    assert main(["plan", *words]) == ExitCode.WELL
    assert "allreduce: 1 sizes" in capsys.readouterr().out


def test_what_was_run_is_what_is_judged(kept):
    """Variables and options of the run are the baseline; what would start something is none of it."""
    options = (("n", "4"), ("mca", "btl", "self,tcp"), ("bind-to", "none"))
    environment = {"OMPI_MCA_btl": "self,tcp", "UCX_TLS": "tcp", "OMPI_MCA_plm_rsh_agent": "evil"}
    run = replace(RUN, library="Open MPI v5.0.11", started=Started("mpirun", options, environment))
    filled = of_recording({"calls": str(kept(run)), "mpi": {"env": {"UCX_TLS": "sysv"}}})
    assert filled["mpi"]["env"] == {
        "OMPI_MCA_btl": "self,tcp",
        "UCX_TLS": "sysv",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
    }
    older = replace(run, library="Open MPI v4.1.4, package: Debian")
    assert baseline(older)["OMPI_MCA_hwloc_base_binding_policy"] == "none"
    assert baseline(RUN) == {}


def test_what_overrides_the_files_is_said():
    started = Started("mpirun", (), {"OMPI_MCA_btl": "self,tcp", "UCX_TLS": "tcp"})
    best = tuned(env=(("OMPI_MCA_btl", "self,sm"), ("UCX_TLS", "tcp")))
    said = sentence(replace(RUN, started=started), best)
    assert "started with OMPI_MCA_btl=self,tcp, which override the files" in said
    assert "override" not in sentence(RUN, best)


@pytest.mark.parametrize(("was", "said"), [("ob1", True), ("ucx", False)])
def test_another_library_for_messages_may_cost_what_no_call_shows(was, said):
    run = replace(RUN, started=Started("mpirun", (), {"OMPI_MCA_pml": was}))
    best = tuned(env=(("OMPI_MCA_pml", "ucx"),))
    assert ("pml=ucx may also change what memory" in sentence(run, best)) == said


@pytest.mark.parametrize(("library", "heeded"), [("Open MPI v5.0.11", False), ("Open MPI v4.1.4", True)])
def test_an_algorithm_that_is_forced_comes_before_rules_in_open_mpi_5_alone(library, heeded):
    forced = "OMPI_MCA_coll_tuned_allreduce_algorithm"
    rule = Rule("allreduce", 4, 0, Point({"algorithm": "ring"}))
    best = Recommendation(Point(), (rule,), ())
    started = Started("mpirun", (), {forced: "5"})
    found = overriding(replace(RUN, library=library, started=started), best)
    assert found == ({} if heeded else {forced: "5"})


def test_nothing_is_promised_of_calls_a_hundred_times_as_long_and_it_is_said():
    best = Recommendation(Point(), (), (Gain(("allreduce", 4, 8192), 5e-6, 0.0, 10e-6, 0.0),))
    assert "allreduce takes 1000 times" in sentence(RUN, best)
    assert "save 0.01 s" in sentence(RUN, best)


@pytest.mark.parametrize(
    "tuned_us, sem_us, said",
    [(5.0, 0.1, "which are not verified, save "), (9.9, 3.0, "may save "), (20.0, 0.1, "do not save: ")],
)
def test_what_is_saved_is_said_only_where_it_is_known(tuned_us, sem_us, said):
    gain = Gain(("allreduce", 4, 8192), tuned_us * 1e-6, sem_us * 1e-6, 10e-6, 0.0)
    assert said in sentence(RUN, Recommendation(Point(), (), (gain,)))
