"""Find the settings that ``guard`` checks, and how launches on this machine put them into effect."""

import fcntl
import json
import math
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotune.campaign.bench import Bench
from autotune.campaign.directory import read_campaign
from autotune.campaign.observing import Measurement, measurement_of
from autotune.commands.keys import quoted
from autotune.commands.trust import check_trusted
from autotune.errors import LockedError, StorageError, UserError
from autotune.exporters import exporter
from autotune.exporters.document import JsonDocument, recommendation_of
from autotune.exporters.export_check import Checkable, Recipe
from autotune.exporters.writing import write_files
from autotune.guard.by_hand import copy_settings, parameter_files
from autotune.guard.heats import Span
from autotune.guard.kept import FOLDER, KEPT, Kept
from autotune.history.folder import FILE, make_empty
from autotune.recommend.recommendation import Recommendation
from autotune.resources import user_text
from autotune.scenario import Scenario, restored
from autotune.stacks import dialect
from autotune.stacks.installation import Installation, find
from autotune.stacks.ports import Rendering
from autotune.views.documents import json_text

_CONF = {"openmpi": "allreduce_local", "mpich": "mpich_local", "intelmpi": "intelmpi_local"}
"""Maps each MPI implementation to the shipped scenario that says what ``guard keep`` measures, unless the
settings belong to a campaign, which has its own scenario."""
_SMALL_BYTES = 8
"""Message size that is measured for a rule without a lower limit: the size of one number."""
_ROOM_BYTES = 1 << 20  # Free space that a folder for launches must have; their files need a tenth of it.
_LEFT_S = 86400.0
"""Age in seconds from which a folder of launches is removed, because a killed check must have left it."""


class MissingFilesError(UserError):
    """Raised when files that put settings into effect no longer exist."""


@dataclass(frozen=True)
class Place:
    """Tuned settings on this machine, and how MPI is launched with them."""

    recommendation: Recommendation  # The tuned settings.
    files: Path  # Folder of the files that put the settings into effect.
    bench: Bench  # The MPI installed on this machine, and its launcher.
    scenario: Scenario  # The scenario: how launches are made, and what they measure.
    launcher: dict[str, Any]  # Hydra's configuration node ``hydra.launcher``; empty for the default launcher.
    name: str  # Name of the export format of the files.
    sources: tuple[Path, ...] = ()  # Files written by hand, if ``files`` contains copies of such files.

    @property
    def installation(self) -> Installation:
        """Return the MPI that is launched.

        Raises:
            UserError: the launcher does not start an MPI, but a simulation or a recording.
        """
        if self.bench.stack is None:
            raise UserError(f"{self.bench.description}: nothing is in effect there", "guard needs a real MPI")
        return self.bench.stack.installation

    @property
    def measurement(self) -> Measurement:
        """Return which calls a launch measures, and how."""
        return measurement_of(self.scenario, self.bench.placement.ranks)

    @property
    def words(self) -> tuple[str, ...]:
        """Return the command-line settings KEY=VALUE of a campaign that launches in the same way."""
        cluster, mpirun = self.scenario.cluster, self.scenario.mpi.mpirun
        launcher_names = str(self.launcher.get("_target_", "")).split(".")[-2:-1]
        return (
            f"conf={_CONF[self.installation.flavour]}",
            *(f"hydra/launcher={name}" for name in launcher_names),
            f"cluster.nodes={cluster.nodes}",
            *([f"cluster.ranks={cluster.ranks}"] if cluster.ranks else []),
            *([f"mpi.mpirun={quoted(mpirun)}"] if mpirun else []),
        )

    def recipe(self, work_folder: Path) -> Recipe:
        """Return the changes to a launch that put the files into effect."""
        return _recipe(self.recommendation, self.files, self.name, work_folder)


def place_to_keep(source: Path, words: Sequence[str], mpirun: str | None, confirmed: bool) -> Place:
    """Return the settings that ``guard keep`` is to save, and how MPI is launched with them.

    Args:
        source: A campaign's directory, an installation prefix, or a folder of exported files.
        words: Settings KEY=VALUE of a scenario, for a prefix or folder; a campaign contains its own scenario.
        mpirun: The launcher; None means the launcher of the campaign, or else the one on the search path.
        confirmed: Whether to start the programs that a campaign names without asking the user.

    Raises:
        UserError: there are no settings of a real MPI, or ``words`` are given for a campaign.
        StackError: there is no MPI on this machine.
    """
    from autotune.commands.hydra_bridge import answer_of

    if (source / FILE).exists():
        if words:
            raise UserError(f"{words[0]}: {source} is a campaign", "it says itself how it is launched")
        campaign = read_campaign(source)
        check_trusted(source, campaign.about, confirmed)
        if stamp := str(campaign.about.bench.stamp):
            raise UserError(f"{source} is {stamp}: no MPI ran", "guard needs settings of a real MPI")
        launcher = dict(campaign.about.bench.launcher)
        return _placed(campaign.recommended(), source / "export", campaign.about.scenario, launcher, mpirun)
    files, sources = _installed(source, mpirun)
    recommendation = _recommendation(files)
    provenance = recommendation.provenance
    if provenance.stamp:
        raise UserError(f"{source} is {provenance.stamp}: no MPI ran", "guard needs a real MPI")
    slots = [g.slot for g in recommendation.gains] or [
        (r.collective, r.comm_size, r.min_bytes or _SMALL_BYTES) for r in recommendation.rules
    ]
    if not (slots or sources):
        problem = f"{files} sets nothing by size, and gains of no size are known"
        raise UserError(problem, "export it with its gains")
    overrides = [
        f"conf={_CONF[find(mpirun).flavour]}",
        *([f"collective=[{','.join(sorted({slot[0] for slot in slots}))}]"] if slots else []),
        *([f"sizes=[{','.join(str(n) for n in sorted({slot[2] for slot in slots}))}]"] if slots else []),
        f"cluster.nodes={provenance.nodes}",
        *([f"cluster.ranks={provenance.ranks}"] if provenance.ranks else []),
        f"campaign.dir={quoted(source.absolute() / FOLDER)}",
        *words,
    ]
    scenario, launcher = answer_of(lambda composed, bench: (composed, dict(bench.launched_by)), overrides)
    env = {**scenario.mpi.env, **dict(provenance.both_sides)}
    scenario = replace(scenario, mpi=replace(scenario.mpi, env=env))
    return replace(_placed(recommendation, files, scenario, launcher, mpirun), sources=sources)


def _installed(source: Path, mpirun: str | None) -> tuple[Path, tuple[Path, ...]]:
    """Return the folder of the exported files in or below a directory, and the files they are copies of.

    If there are folders for several versions of Open MPI, the folder for the installed version is returned.
    If there are only parameter files that somebody wrote by hand, these are copied to a new folder.

    Raises:
        UserError: the directory contains no settings.
    """
    if (source / "recommendation.json").exists():
        return source, ()
    trees = {path.parent.name: path.parent for path in sorted(source.glob("*/recommendation.json"))}
    version_name = f"openmpi-{find(mpirun).version}"
    if version_name in trees or len(trees) == 1:
        return trees.get(version_name) or next(iter(trees.values())), ()
    if not trees and (files := parameter_files(source)):
        copy = source.absolute() / FOLDER / "settings"
        return copy, copy_settings(files, mpirun, copy)
    below = f"below it: {', '.join(trees)}; here is {version_name}" if trees else ""
    raise UserError(
        f"{source} holds no settings to keep",
        f"{below or 'no recommendation.json there or below'}, no parameter file of Open MPI or UCX; "
        "export --prefix PREFIX, or --format json, writes one",
    )


def kept_place(reference: Kept, mpirun: str | None, working: Path, span: Span | None = None) -> Place:
    """Return the settings of a saved reference, to be launched with today's MPI or with another launcher.

    Args:
        reference: The state saved by ``guard keep``.
        mpirun: Another launcher; None means the one in the scenario of the reference.
        working: Folder that is used in place of the campaign's directory; it records jobs of the batch system
            and the nodes that they had.
        span: The time limit, which includes waiting for a job; None sets no limit.

    Raises:
        HandedOver: the check will be made by a job that was submitted to the batch system.
        MissingFilesError: files that put the settings into effect no longer exist.
    """
    recommendation = recommendation_of(json_text(reference.recommendation), KEPT)
    scenario = restored(reference.scenario)
    scenario = replace(scenario, campaign=replace(scenario.campaign, dir=str(working.absolute())))
    if span:
        queue_s = min(scenario.launch.queue_timeout_s, span.within(math.inf))
        scenario = replace(scenario, launch=replace(scenario.launch, queue_timeout_s=queue_s))
    return _placed(recommendation, Path(reference.settings), scenario, dict(reference.launcher), mpirun)


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
    bench = connected(launcher, scenario.alone)
    flavour = bench.stack.installation.flavour if bench.stack else ""
    return Place(recommendation, files, bench, scenario, launcher, _format(recommendation, files, flavour))


def _format(recommendation: Recommendation, files: Path, flavour: str) -> str:
    """Return the name of the first export format that a launch can check and whose files all exist."""
    lacking = []
    for name in dict.fromkeys((*dialect(flavour).formats, "env_sh")):
        writer = exporter(name)
        if isinstance(writer, Checkable):
            texts = writer.export(recommendation, files)
            missing = [file for file in texts if not (files / file).is_file()]
            if texts and not missing:
                return name
            lacking += [f"{', '.join(missing)} for {name}"] if missing else []
    problem = f"{files} lacks files that put the settings into effect: {'; '.join(lacking)}"
    raise MissingFilesError(problem, "export them again, and keep them")


def _recommendation(folder: Path) -> Recommendation:
    path = folder / "recommendation.json"
    return recommendation_of(user_text(path, raised=UserError), str(path))


def recommendation_document(recommendation: Recommendation) -> dict[str, Any]:
    """Return a recommendation as the document that ``export --format json`` writes."""
    (text,) = JsonDocument().export(recommendation, Path()).values()
    document: dict[str, Any] = json.loads(text)
    return document


def exported_anew(place: Place, work_folder: Path) -> Place:
    """Return the settings with files that are exported again, without changes that somebody made by hand."""
    folder = work_folder / "settings"
    texts = exporter(place.name).export(place.recommendation, folder)
    write_files({folder / name: text for name, text in texts.items()}, parents=True, below=folder)
    return replace(place, files=folder)


def settings_in(folder: Path, bench: Bench, work_folder: Path) -> Callable[[Rendering], Rendering]:
    """Return a function that amends a launch so that the settings in a folder are in effect."""
    recommendation = _recommendation(folder)
    flavour = bench.stack.installation.flavour if bench.stack else ""
    return _recipe(recommendation, folder, _format(recommendation, folder, flavour), work_folder).under


def _recipe(recommendation: Recommendation, files: Path, name: str, work_folder: Path) -> Recipe:
    writer = exporter(name)
    proof = work_folder / "proof"
    if isinstance(writer, Checkable) and (recipe := writer.recipe(recommendation, files, proof)):
        return recipe
    raise UserError(f"{files}: nothing there can be put into effect by a launch", "export it again")


@contextmanager
def launching(folder: Path | None, alone: bool = False) -> Iterator[Path]:
    """Create a folder for launches, which is removed at the end of the ``with`` block.

    The new folder is created in ``folder``. If that is None or cannot be written, the new folder is created
    in the home directory or, if that cannot be written either, in the folder for temporary files, which not
    every node sees. With ``alone``, it is an error if another check is measuring in the same folder.

    Raises:
        LockedError: another check is measuring.
        StorageError: none of the folders can be written.
    """
    with ExitStack() as stack:
        yield _launch_folder(folder, stack, alone)


def _launch_folder(folder: Path | None, stack: ExitStack, alone: bool) -> Path:
    failures = []
    for parent in filter(None, (folder, Path.home() / ".cache" / "autotune-guard")):
        try:
            for old_folder in parent.glob("launches-*"):
                with suppress(OSError):
                    if time.time() - old_folder.stat().st_mtime > _LEFT_S:
                        shutil.rmtree(old_folder, ignore_errors=True)
            work_folder = make_empty(parent / f"launches-{platform.node()}-{os.getpid()}")
            stack.callback(shutil.rmtree, work_folder, ignore_errors=True)
            (work_folder / "room").write_bytes(bytes(_ROOM_BYTES))
            (work_folder / "room").unlink()
            if alone:
                _lock(parent, stack)
        except OSError as exc:
            failures.append(f"{parent}: {exc.strerror}")
        else:
            return work_folder
    try:
        work_folder = Path(tempfile.mkdtemp(prefix="autotune-guard-"))
    except OSError as exc:
        reasons = "; ".join((*failures, f"{tempfile.gettempdir()}: {exc.strerror}"))
        hint = "make room, or name a folder of your own"
        raise StorageError(f"nowhere to launch: {reasons}", hint) from exc
    stack.callback(shutil.rmtree, work_folder, ignore_errors=True)
    return work_folder


def _lock(folder: Path, stack: ExitStack) -> None:
    """Lock a folder, so that no other check measures; the kernel unlocks it however the process ends."""
    descriptor = os.open(folder / ".measuring", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        message = f"{folder}: another check measures now, and both would measure each other"
        raise LockedError(message, "wait for it; --quick measures nothing") from exc
