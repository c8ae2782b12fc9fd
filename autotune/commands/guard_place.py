"""Settings that are guarded, on this machine: found, put into effect, launched in turn."""

import fcntl
import math
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from autotune.campaign.directory import read_campaign
from autotune.campaign.interruption import check as heed
from autotune.campaign.observing import Measurement, measurement_of
from autotune.campaign.site import Site
from autotune.commands.guard_found import copied, found_files
from autotune.commands.guard_span import Span
from autotune.commands.keys import quoted
from autotune.commands.trust import check_trusted
from autotune.errors import LockedError, StorageError, UserError
from autotune.exporters import exporter
from autotune.exporters.document import JsonDocument, recommendation_of
from autotune.exporters.export_check import Checkable, Recipe
from autotune.guard.kept import FOLDER, KEPT, Kept
from autotune.history.folder import FILE, make_empty
from autotune.history.trial import Observation, Phase, Status, Subject, Trial
from autotune.recommend.recommendation import Recommendation
from autotune.resources import user_text
from autotune.scenario import Scenario, restored
from autotune.stacks import dialect
from autotune.stacks.installation import Installation, find
from autotune.stacks.ports import Rendering
from autotune.verification.blocks import order
from autotune.views.documents import json_text

_CONF = {"openmpi": "allreduce_local", "mpich": "mpich_local", "intelmpi": "intelmpi_local"}
"""Flavour → the shipped scenario whose way of measuring is taken where a prefix is kept."""
_SMALL_BYTES = 8
"""Where a rule holds from the first byte on: the size of a number."""
_ROOM_BYTES = 1 << 20
"""There must be so much room for launches: requests, results and rules have a tenth of it."""
_LEFT_S = 86400.0
"""Folders of launches that are older were left by a check that was killed: a night is over by then."""


class MissingFilesError(UserError):
    """Files that put settings into effect are not there any more."""


@dataclass(frozen=True)
class Place:
    """Settings on this machine, and how they are launched."""

    recommendation: Recommendation
    files: Path
    site: Site
    scenario: Scenario
    launcher: dict[str, Any]
    name: str
    """Name of the format by which they are put into effect."""
    sources: tuple[Path, ...] = ()
    """Files that somebody wrote, of which ``files`` has copies."""

    @property
    def installation(self) -> Installation:
        """The MPI that is launched."""
        if self.site.stack is None:
            raise UserError(f"{self.site.description}: nothing is in effect there", "guard needs a real MPI")
        return self.site.stack.installation

    @property
    def measurement(self) -> Measurement:
        """Measurement of a launch."""
        return measurement_of(self.scenario, self.site.placement.ranks)

    @property
    def words(self) -> tuple[str, ...]:
        """KEY=VALUE of a campaign that launches likewise."""
        cluster, mpirun = self.scenario.cluster, self.scenario.mpi.mpirun
        by = str(self.launcher.get("_target_", "")).split(".")[-2:-1]
        return (
            f"conf={_CONF[self.installation.flavour]}",
            *(f"hydra/launcher={name}" for name in by),
            f"cluster.nodes={cluster.nodes}",
            *([f"cluster.ranks={cluster.ranks}"] if cluster.ranks else []),
            *([f"mpi.mpirun={quoted(mpirun)}"] if mpirun else []),
        )

    def recipe(self, into: Path) -> Recipe:
        """How the files are put into effect."""
        return _recipe(self.recommendation, self.files, self.name, into)

    def observe(self, amended: Any, trial: Trial, into: Path) -> Observation:
        """One launch, under a rendering that somebody amends; None: untouched."""
        measurement = self.measurement if amended is None else replace(self.measurement, amended=amended)
        if 0 < trial.timeout_s < measurement.timeout_s:  # no time is left to wait for better cores
            measurement = replace(measurement, patience_s=0.0)
        return self.site.observer(measurement, self.site.space, into).observe(trial)


def kept_anew(source: Path, words: Sequence[str], mpirun: str | None, unasked: bool) -> Place:
    """Settings in a campaign's directory, below a prefix, or in a folder of exported files."""
    from autotune.commands.hydra_bridge import answer_of

    if (source / FILE).exists():
        if words:
            raise UserError(f"{words[0]}: {source} is a campaign", "it says itself how it is launched")
        campaign = read_campaign(source)
        check_trusted(source, campaign.about, unasked)
        if stamp := str(campaign.about.site.stamp):
            raise UserError(f"{source} is {stamp}: no MPI ran", "guard needs settings of a real MPI")
        launcher = dict(campaign.about.site.launcher)
        return _placed(campaign.recommended(), source / "export", campaign.about.scenario, launcher, mpirun)
    files, sources = _installed(source, mpirun)
    recommendation = _recommendation(files)
    if recommendation.provenance.stamp:
        raise UserError(
            f"{source} is {recommendation.provenance.stamp}: no MPI ran", "guard needs a real MPI"
        )
    slots = [g.slot for g in recommendation.gains] or [
        (r.collective, r.comm_size, r.min_bytes or _SMALL_BYTES) for r in recommendation.rules
    ]
    source_ = recommendation.provenance
    asked = [
        f"conf={_CONF[find(mpirun).flavour]}",
        *([f"collective=[{','.join(sorted({slot[0] for slot in slots}))}]"] if slots else []),
        *([f"sizes=[{','.join(str(n) for n in sorted({slot[2] for slot in slots}))}]"] if slots else []),
        f"cluster.nodes={source_.nodes}",
        *([f"cluster.ranks={source_.ranks}"] if source_.ranks else []),
        f"campaign.dir={quoted(source.absolute() / FOLDER)}",
    ]
    if not (slots or sources):
        raise UserError(
            f"{files} sets nothing by size, and gains of no size are known", "export it with its gains"
        )
    scenario, launcher = answer_of(lambda one, site: (one, dict(site.launched_by)), [*asked, *words])
    both = dict(source_.both_sides)
    scenario = replace(scenario, mpi=replace(scenario.mpi, env={**scenario.mpi.env, **both}))
    return replace(_placed(recommendation, files, scenario, launcher, mpirun), sources=sources)


def _installed(source: Path, mpirun: str | None) -> tuple[Path, tuple[Path, ...]]:
    """The folder of files, of the version that is here where there are several, and what it has copies of."""
    if (source / "recommendation.json").exists():
        return source, ()
    trees = {path.parent.name: path.parent for path in sorted(source.glob("*/recommendation.json"))}
    here = f"openmpi-{find(mpirun).version}"
    if here in trees or len(trees) == 1:
        return trees.get(here) or next(iter(trees.values())), ()
    if not trees and (files := found_files(source)):
        copy = source.absolute() / FOLDER / "settings"
        return copy, copied(files, mpirun, copy)
    said = (
        f"below it: {', '.join(trees)}; here is {here}" if trees else "no recommendation.json there or below"
    )
    raise UserError(
        f"{source} holds no settings to keep",
        f"{said}, no parameter file of Open MPI or UCX; export --prefix PREFIX, or --format json, writes one",
    )


def kept_place(kept: Kept, mpirun: str | None, working: Path, span: Span | None = None) -> Place:
    """Kept settings, with the MPI that is here now, or another ``mpirun``.

    Args:
        kept: The settings.
        mpirun: Another launcher.
        working: Folder for what belongs to a campaign, such as jobs of a batch system and the nodes that
            they had: the same one wherever the check is started.
        span: Time that waiting for a job is part of.

    Raises:
        HandedOver: a job of the batch system makes the check.
    """
    recommendation = recommendation_of(json_text(kept.recommendation), KEPT)
    scenario = working_in(working, restored(kept.scenario))
    if span:
        queue_s = min(scenario.launch.queue_timeout_s, span.within(math.inf))
        scenario = replace(scenario, launch=replace(scenario.launch, queue_timeout_s=queue_s))
    return _placed(recommendation, Path(kept.settings), scenario, dict(kept.launcher), mpirun)


def working_in(folder: Path, scenario: Scenario) -> Scenario:
    """The scenario with a folder in place of the campaign's directory."""
    return replace(scenario, campaign=replace(scenario.campaign, dir=str(folder.absolute())))


def _placed(
    recommendation: Recommendation,
    files: Path,
    scenario: Scenario,
    launcher: dict[str, Any],
    mpirun: str | None,
) -> Place:
    from autotune.commands.hydra_bridge import connected

    if mpirun:
        scenario = replace(scenario, mpi=replace(scenario.mpi, mpirun=mpirun, stack="any"))
    site = connected(launcher, scenario.alone)
    flavour = site.stack.installation.flavour if site.stack else ""
    return Place(recommendation, files, site, scenario, launcher, _format(recommendation, files, flavour))


def _format(recommendation: Recommendation, files: Path, flavour: str) -> str:
    """The first format that can be checked of which all files are there.

    Raises:
        MissingFilesError: there is none.
    """
    lacking = []
    for name in dict.fromkeys((*dialect(flavour).formats, "env_sh")):
        made = exporter(name)
        if isinstance(made, Checkable):
            wanted = made.export(recommendation, files)
            gone = [file for file in wanted if not (files / file).is_file()]
            if wanted and not gone:
                return name
            lacking += [f"{', '.join(gone)} for {name}"] if gone else []
    raise MissingFilesError(
        f"{files} lacks files that put the settings into effect: {'; '.join(lacking)}",
        "export them again, and keep them",
    )


def _recommendation(folder: Path) -> Recommendation:
    path = folder / "recommendation.json"
    return recommendation_of(user_text(path, raised=UserError), str(path))


def recommendation_document(recommendation: Recommendation) -> dict[str, Any]:
    """As ``export --format json`` writes it."""
    import json

    document: dict[str, Any] = json.loads(next(iter(JsonDocument().export(recommendation, Path()).values())))
    return document


def settings_in(folder: Path, site: Site, into: Path) -> Callable[[Rendering], Rendering]:
    """Amendment that puts the settings in a folder into effect on launches of a site.

    Raises:
        UserError: they cannot be.
    """
    recommendation = _recommendation(folder)
    flavour = site.stack.installation.flavour if site.stack else ""
    return _recipe(recommendation, folder, _format(recommendation, folder, flavour), into).under


def _recipe(recommendation: Recommendation, files: Path, name: str, into: Path) -> Recipe:
    made = exporter(name)
    found = made.recipe(recommendation, files, into / "proof") if isinstance(made, Checkable) else None
    if found is None:
        raise UserError(f"{files}: nothing there can be put into effect by a launch", "export it again")
    return found


def in_turn(
    amended: Sequence[Any], places: Sequence[Place], into: Path, span: Span, each: int
) -> Iterator[tuple[Observation, bool]]:
    """Launches of two sides in an order that is drawn, as many as there is time for.

    A block is begun where there is time for it by the longest launch so far. One that is cut short all the
    same counts as far as it was made: had the settings no effect, when that is would depend on times that
    are the same whatever the order.
    """
    rng = np.random.default_rng()
    drawn = order(each, rng)
    block_of = [block for block, _ in drawn]
    for number, (block, tuned) in enumerate(drawn, start=1):
        heed()
        begins = number == 1 or block_of[number - 2] != block
        wanted_s = span.launch_s * block_of.count(block) if begins else 0.0
        if span.left_s < wanted_s or span.left_s <= 0:
            return
        place = places[tuned]
        limit_s = span.within(place.measurement.timeout_s)
        default, seed = place.site.space.default, int(rng.integers(2**31))
        trial = Trial(100 + number, Phase.VERIFY, default, Subject.UNTOUCHED, block, seed, timeout_s=limit_s)
        observation = span.timed(partial(place.observe, amended[tuned], trial, into))
        if observation.status is Status.TIMEOUT and span.left_s <= 0:
            return  # cut short by the end, which says nothing of it
        said = "ok" if observation.ok else f"{observation.status}: {observation.reason}"
        side = "settings" if tuned else "default"
        sys.stderr.write(f"launch {number} of at most {len(drawn)}  {side}  {said}\n")
        yield observation, tuned


@contextmanager
def launching(folder: Path | None, alone: bool = False) -> Iterator[Path]:
    """A folder for launches, which nobody keeps; ``alone``: no other check measures there meanwhile.

    Where ``folder`` cannot be written it is at home, else among temporary files, which not every node sees.

    Raises:
        LockedError: another check measures.
        StorageError: nothing can be written anywhere.
    """
    with ExitStack() as stack:
        yield _launches(folder, stack, alone)


def _launches(folder: Path | None, stack: ExitStack, alone: bool) -> Path:
    refused = []
    for above in filter(None, (folder, Path.home() / ".cache" / "autotune-guard")):
        try:
            for left in above.glob("launches-*"):
                with suppress(OSError):
                    if time.time() - left.stat().st_mtime > _LEFT_S:
                        shutil.rmtree(left, ignore_errors=True)
            into = make_empty(above / f"launches-{platform.node()}-{os.getpid()}")
            stack.callback(shutil.rmtree, into, ignore_errors=True)
            (into / "room").write_bytes(bytes(_ROOM_BYTES))
            (into / "room").unlink()
            if alone:
                _hold(above, stack)
        except OSError as exc:
            refused.append(f"{above}: {exc.strerror}")
        else:
            return into
    try:
        into = Path(tempfile.mkdtemp(prefix="autotune-guard-"))
    except OSError as exc:
        said = "; ".join((*refused, f"{tempfile.gettempdir()}: {exc.strerror}"))
        raise StorageError(f"nowhere to launch: {said}", "make room, or name a folder of your own") from exc
    stack.callback(shutil.rmtree, into, ignore_errors=True)
    return into


def _hold(folder: Path, stack: ExitStack) -> None:
    """Hold what only one check that measures may hold; the kernel drops it however that ends."""
    descriptor = os.open(folder / ".measuring", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        said = f"{folder}: another check measures now, and both would measure each other"
        raise LockedError(said, "wait for it; --quick measures nothing") from exc
