"""``guard`` without an MPI: how its time is shared, and what it says where a job answers."""

import shlex
import sys
from dataclasses import dataclass, field

import pytest

from autotune.cli import main
from autotune.errors import ExitCode, HandedOver, UnansweredError
from autotune.guard.heats import Span, blocks_in_time, environment_side
from autotune.guard.kept import Kept, read_kept, write_kept
from autotune.guard.verbs import unanswered
from autotune.history.trial import Observation, Status
from autotune.verification.sequential import SequentialDesign
from tests.schemas import answer
from tests.unit.commands.test_trust import at_home, kept, program  # noqa: F401 - fixtures
from tests.unit.launchers.test_slurm_submit import folder  # noqa: F401 - a fixture

EACH = 24
FIRST = 3 * SequentialDesign().each  # three sides, one after the other


@dataclass
class World:
    """Launches on a clock of their own, each as long as a test says, with its waiting in a queue."""

    launch_s: float
    slower_s: float = 0.0
    now_s: float = 0.0
    limits: list[float] = field(default_factory=list)

    def observe(self, trial):
        self.limits.append(trial.timeout_s)
        self.launch_s += self.slower_s
        self.now_s += min(self.launch_s, trial.timeout_s)
        return Observation(trial, Status.TIMEOUT if self.launch_s > trial.timeout_s else Status.OK)


def launched(world, minutes, before_s=0.0, known_s=0.0):
    span = Span(minutes, clock=lambda: world.now_s)
    world.now_s += before_s
    span.launch_s = known_s
    sides = [environment_side(name, world, 85.0) for name in ("default", "settings", "as kept")]
    return span, list(blocks_in_time(sides, EACH, span))


@pytest.mark.parametrize("minutes", [0.5, 1, 2, 10])
@pytest.mark.parametrize("launch_s", [0.3, 2.0, 30.0, 300.0])
@pytest.mark.parametrize("before_s", [0.0, 20.0, 200.0])
def test_all_of_it_ends_in_its_minutes(minutes, launch_s, before_s):
    """Asking libraries and proving the settings come before, and are part of them."""
    world = World(launch_s)
    span, blocks = launched(world, minutes, before_s, known_s=launch_s)
    assert world.now_s <= max(60 * minutes, before_s)
    assert all(len(block) == FIRST for block in blocks)
    assert len(blocks) <= EACH * 3 / FIRST
    assert bool(blocks) == (before_s + FIRST * launch_s <= 60 * minutes and launch_s <= 85.0)
    if not blocks:
        assert f"--minutes {minutes:g} was used up before a first block" in span.shortage_text(FIRST)
        wanted = int(span.shortage_text(FIRST).rpartition(" about ")[2].split()[0])
        assert launched(World(launch_s), wanted, before_s, known_s=launch_s)[1]


def test_launches_that_become_longer_end_in_time_and_the_block_that_is_cut_short_is_none():
    world = World(2.0, slower_s=0.5)
    _, blocks = launched(world, 2)
    assert world.now_s <= 121
    assert blocks
    assert all(observation.ok for block in blocks for _, observation in block)


def test_a_launch_that_hangs_is_ended_with_the_minutes():
    world = World(1e6)
    _, blocks = launched(world, 1)
    assert (blocks, world.now_s, world.limits) == ([], 60.0, [60.0])


def test_each_block_has_as_many_launches_of_each_side_in_an_order_that_is_drawn():
    _, blocks = launched(World(0.1), 10)
    orders = [tuple(which for which, _ in block) for block in blocks]
    assert {tuple(sorted(one)) for one in orders} == {tuple(sorted([0, 1, 2] * (FIRST // 3)))}
    assert len(set(orders)) > 1
    numbers = [observation.trial.number for block in blocks for _, observation in block]
    assert len(set(numbers)) == 3 * EACH


def on_slurm(place):
    """Have jobs of Slurm launch what was kept."""
    document = read_kept(place)
    node = {"_target_": "hydra_plugins.autotune.slurm.SlurmLauncher", "allocation": "campaign"}
    write_kept(place, Kept(*(document.date, document.settings, document.recommendation, document.facts),
                           document.scenario, node))  # fmt: skip


@pytest.mark.parametrize("already", [False, True], ids=["a job was submitted", "a job makes another check"])
def test_what_a_job_will_answer_is_not_answered(kept, folder, tmp_path, monkeypatch, capsys, already):  # noqa: F811 - fixtures
    """It ended with 0, which means that nothing has changed."""
    place, _ = kept
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    on_slurm(place)
    if already:
        (tmp_path / "bin" / "squeue").write_text("#!/bin/sh\necho 8\n")
    (tmp_path / "bin" / "scontrol").write_text("#!/bin/sh\necho JobId=8 JobState=RUNNING\n")
    (tmp_path / "bin" / "scontrol").chmod(0o755)
    code = main(["guard", "check", str(place.parent), "--quick", "--yes", "--json"])
    printed = capsys.readouterr()
    assert (code, ExitCode.UNANSWERED) == (6, 6), printed.err
    assert answer(printed.out)["code"] == 6
    assert f"nothing is said yet: job {8 if already else 7} runs this campaign" in printed.err
    assert not (place / "nights.jsonl").exists()


def test_there_is_one_working_directory_whatever_the_current_one(kept, folder, tmp_path, monkeypatch):  # noqa: F811 - fixtures
    place, _ = kept
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    on_slurm(place)
    for name in ("one", "another"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        assert main(["guard", "check", "../guard/..", "--quick", "--yes"]) == 6
        assert list((tmp_path / name).iterdir()) == []
    assert [path.name for path in place.iterdir() if path.is_dir()] == ["slurm"]


def test_a_line_to_copy_starts_the_python_that_runs(tmp_path, capsys):
    source = tmp_path / "a site"
    with pytest.raises(UnansweredError) as told, unanswered(source):
        raise HandedOver("job 7 makes the check")
    assert main(["guard", "check", str(source)]) == 2
    lines = (told.value.hint.removeprefix("afterwards: "), capsys.readouterr().err.partition("first: ")[2])
    for verb, line in zip(("history", "keep"), lines, strict=True):
        assert shlex.split(line) == [sys.executable, "-m", "autotune", "guard", verb, str(source)]
