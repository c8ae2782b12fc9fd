"""Settings compared while a command of the site's runs."""

import math
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from autotune.campaign.observing import Measurement
from autotune.errors import CampaignError
from autotune.history.trial import Cell, Estimate, Observation, Rule, Status, Subject, Trial
from autotune.probe.protocol import ProbeRequest
from autotune.recommend.recommendation import Recommendation
from autotune.site import load as site_load
from autotune.site.load import LoadedSlot, UnderLoad, compare_under_load, load_text, without_lost_rules
from autotune.space import Point

SLOTS = (("bcast", 8, 8), ("bcast", 8, 65536))
RULES = (Rule("bcast", 8, 4, Point.of({"algorithm": "chain"})), Rule("bcast", 8, 131073, Point()))
CHOSEN = Recommendation(Point(), RULES)
VERIFY = SimpleNamespace(launches=8, error_rate=0.05, max_loss=0.05, margin=0.1)
WANTED = SimpleNamespace(verify=VERIFY, launch=SimpleNamespace(heats=True))

PROBE = ProbeRequest(("bcast",), (8,), budget_s=1.0, precision=0.1, min_samples=6, max_samples=9,
                     timing="auto", sync="barrier", check=True)  # fmt: skip
MEASUREMENT = Measurement(PROBE, 60.0, other_calls=("halo",))


@dataclass
class Planted:
    """A machine on which large messages of the deployed setting are faster alone, slower beside a load."""

    flag: Path

    def observe(self, trial: Trial) -> Observation:
        deployed = trial.subject is Subject.DEPLOYED
        times = {8: 0.5 if deployed else 1.0, 65536: 1.0}
        if deployed:
            times[65536] = 2.0 if self.flag.exists() else 0.5
        jitter = math.exp(0.001 * (trial.number % 3))  # whatever order is drawn, 0.50 is printed
        cells = (Estimate(Cell(*slot), times[slot[2]] * jitter, 0.001, 9) for slot in SLOTS)
        return Observation(trial, Status.OK, tuple(cells), duration_s=2.0)


def compared(command: str, flag: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> UnderLoad:
    monkeypatch.setattr(site_load, "measurement_of", lambda *_: MEASUREMENT)
    space, placed = SimpleNamespace(untouched=Point()), SimpleNamespace(ranks=8)

    def observer(measurement: Measurement, *_: object) -> Planted:
        assert not measurement.other_calls  # nobody asks for it, and it is a load itself
        return Planted(flag)

    place = SimpleNamespace(observer=observer, placement=placed, space=space)
    while_it_starts = Planted.observe

    def observe(self: Planted, trial: Trial) -> Observation:
        for _ in range(200 if trial.number == 1 else 0):  # a real one starts later than any load
            time.sleep(0 if flag.exists() else 0.01)
        return while_it_starts(self, trial)

    monkeypatch.setattr(Planted, "observe", observe)
    return compare_under_load(command, "", CHOSEN, WANTED, place, folder)  # type: ignore[arg-type]  # as much of them as is asked


def test_what_is_best_alone_and_loses_under_load_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = tmp_path / "loaded"
    found = compared(f"touch {flag}; sleep 60", flag, tmp_path, monkeypatch)
    assert found.lost == {SLOTS[1]}
    assert found.took_s % 2 == 0
    assert load_text(found) == (
        "under load bcast of 64 KiB on 8 ranks 1.00× alone and 0.50×: the library decides there"
    )
    kept = without_lost_rules(CHOSEN, found, ()).rules
    assert [bool(rule.choice) for rule in kept] == [True, False]
    assert 8 < kept[1].min_bytes <= 65536


def test_a_setting_that_fails_beside_the_command_is_lost_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag, well, launch = tmp_path / "loaded", Planted.observe, count()

    def observe(self: Planted, trial: Trial) -> Observation:
        if trial.subject is Subject.DEPLOYED and next(launch) % 3 == 1:
            return Observation(trial, Status.CRASHED, (), reason="planted", duration_s=2.0)
        return well(self, trial)

    monkeypatch.setattr(Planted, "observe", observe)
    found = compared(f"touch {flag}; sleep 60", flag, tmp_path, monkeypatch)
    assert found.lost == set(SLOTS)
    assert not any(rule.choice for rule in without_lost_rules(CHOSEN, found, ()).rules)


def test_a_command_that_ends_by_itself_is_no_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flag = tmp_path / "loaded"
    with pytest.raises(CampaignError, match=r"ended by itself: exit code 7, no such program"):
        compared(f"touch {flag}; echo no such program; exit 7", flag, tmp_path, monkeypatch)


def test_a_setting_of_the_whole_job_is_refused_as_a_whole() -> None:
    lost = UnderLoad("component=tuned", (LoadedSlot(SLOTS[0], 1.5, -0.3, lost=True),), 1.0)
    assert lost.refused
    assert without_lost_rules(CHOSEN, lost, ()) == CHOSEN
    assert "component=tuned is not taken" in load_text(lost)
    assert load_text(UnderLoad("", (LoadedSlot(SLOTS[0], 1.5, 0.3, lost=False),), 1.0)).endswith("loses")
