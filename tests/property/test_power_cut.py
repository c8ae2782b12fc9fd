"""A power cut at any step of a journal's life: what was not synced is gone, what was observed is there."""

import os
import random

import pytest

from autotune.history.events import history_of, observation_event, trial_event
from autotune.history.journal import FILE, Journal, read_events
from autotune.history.trial import Phase, Trial
from tests.campaigns import SPACE, World


class PowerCutError(BaseException):
    """The machine is off."""


class Disk:
    """Stands between the journal and the system: knows what was synced, and fails at the n-th call."""

    def __init__(self, monkeypatch, path, calls):
        self.path, self.calls, self.synced = path, calls, path.stat().st_size if path.exists() else 0
        for name in ("write", "fsync", "ftruncate"):
            monkeypatch.setattr(os, name, self.counted(name, getattr(os, name)))

    def counted(self, name, system):
        def call(descriptor, *rest):
            if os.path.realpath(f"/proc/self/fd/{descriptor}") != str(self.path):
                return system(descriptor, *rest)
            self.calls -= 1
            if self.calls == 0:
                raise PowerCutError
            done = system(descriptor, *rest)
            if name == "fsync":
                self.synced = self.path.stat().st_size
            return done

        return call


@pytest.mark.parametrize("seed", range(40))
def test_what_was_appended_before_a_power_cut_is_there_after_it(seed, tmp_path, monkeypatch):
    rng, world = random.Random(seed), World()
    path, told = tmp_path / FILE, 0
    while told < 6:
        with monkeypatch.context() as machine:
            disk = Disk(machine, path, rng.randint(1, 12))
            try:
                with Journal(tmp_path) as journal:
                    history = history_of(journal.read())
                    assert len(history) >= told
                    told = len(history)
                    for number in range(told + 1, 7):
                        trial = Trial(number, Phase.SEARCH, SPACE.default, seed=number)
                        if not any(e.get("number") == number for e in journal.read()):
                            journal.append(trial_event(trial))
                        journal.append(observation_event(world.observe(trial)))
                        told = number
            except PowerCutError:
                kept = rng.randint(disk.synced, max(disk.synced, path.stat().st_size))
                path.write_bytes(path.read_bytes()[:kept])
    history = history_of(read_events(tmp_path))
    assert [o.trial.number for o in history] == [1, 2, 3, 4, 5, 6]
