"""``guard keep``, ``check`` and ``history``: are the settings that were kept still right tonight?"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from autotune.campaign.directory import read_campaign
from autotune.campaign.interruption import check as heed
from autotune.campaign.interruption import heeded
from autotune.campaign.observing import Measurement, measurement_of
from autotune.campaign.site import Site
from autotune.commands.trust import check_trusted
from autotune.errors import ExitCode, StackError, UserError
from autotune.exporters import exporter
from autotune.exporters.document import JsonDocument, recommendation_of
from autotune.exporters.export_check import Checkable, Proof, Recipe, check_export
from autotune.exporters.guard import guard_of
from autotune.exporters.writing import write_files
from autotune.guard.changes import Change, changes
from autotune.guard.facts import facts_of
from autotune.guard.kept import (
    FOLDER,
    KEPT,
    Kept,
    Launched,
    Night,
    add_night,
    by_day,
    read_kept,
    read_nights,
    slot_text,
    write_kept,
)
from autotune.guard.told import Told, reframe_test
from autotune.guard.verdict import judge
from autotune.history.folder import FILE, make_empty
from autotune.history.trial import Observation, Phase, Status, Subject, Trial
from autotune.recommend.recommendation import Recommendation
from autotune.resources import user_text
from autotune.scenario import Scenario, restored
from autotune.stacks import dialect
from autotune.stacks.installation import Installation, find
from autotune.stacks.ports import Rendering
from autotune.structure import plain
from autotune.verification.blocks import blocks_of, order
from autotune.verification.comparison import claims, compare
from autotune.verification.sequential import SequentialDesign
from autotune.views.documents import json_text
from autotune.views.text import ratio_text

EACH_NIGHT = 16
"""Launches of each side: on a machine whose launches differ by 5 % a night is then known to 1.3 %, and a loss
of 10 % at one size is found in three nights (docs/guard.md)."""
MINUTES = 10.0
"""That they may take."""
REFRAME = "autotune_guard_reframe.py"
_CONF = {"openmpi": "allreduce_local", "mpich": "mpich_local", "intelmpi": "intelmpi_local"}
"""Flavour → the shipped scenario whose way of measuring is taken where a prefix is kept."""


@dataclass(frozen=True)
class _Place:
    """Settings on this machine, and how they are launched."""

    recommendation: Recommendation
    files: Path
    site: Site
    scenario: Scenario
    launcher: dict[str, Any]
    name: str
    """Of the format by which they are put into effect."""

    @property
    def installation(self) -> Installation:
        """The MPI that is launched."""
        if self.site.stack is None:
            raise UserError(f"{self.site.description}: nothing is in effect there", "guard needs a real MPI")
        return self.site.stack.installation

    @property
    def measurement(self) -> Measurement:
        """What a launch measures."""
        return measurement_of(self.scenario, self.site.placement.ranks)

    def recipe(self, into: Path) -> Recipe:
        """How the files are put into effect."""
        return _recipe(self.recommendation, self.files, self.name, into)

    def observe(self, amended: Any, trial: Trial, into: Path) -> Observation:
        """One launch, under a rendering that somebody amends; None: untouched."""
        measurement = self.measurement if amended is None else replace(self.measurement, amended=amended)
        return self.site.observer(measurement, self.site.space, into).observe(trial)


@heeded()
def keep(source: Path, words: Sequence[str], minutes: float | None, mpirun: str | None, unasked: bool) -> int:
    """Write down what holds today, with a night of launches.

    ``words``: KEY=VALUE of a scenario, for what a prefix does not say.

    Raises:
        UserError: no settings there, or no real MPI's.
        StackError: no MPI here.
        StorageError: the disk is full or read-only.
    """
    place, folder = _kept_anew(source, words, mpirun, unasked), source / FOLDER
    facts = facts_of(place.installation, _files(place.files), steady=True)
    document = recommendation_document(place.recommendation)
    kept = Kept(_now(), str(place.files.absolute()), document, facts, plain(place.scenario), place.launcher)
    before = read_nights(folder)
    same = bool(before) and (folder / KEPT).exists() and read_kept(folder).facts.identity == facts.identity
    write_kept(folder, kept)
    with launching(folder) as into:
        proof = _proof(place, into)
        launches: tuple[Launched, ...] = ()
        hosts: tuple[str, ...] = ()
        if minutes is None or minutes > 0:
            launches, hosts, _ = _night(place, into, MINUTES if minutes is None else minutes)
    said = (str(proof) if proof else "nothing could be launched under the files",)
    night = Night(
        _now(), facts.identity, launches, hosts, said, int(bool(proof and proof.refutes)), kept=not same
    )
    _append(folder, night)
    nights = by_day(read_nights(folder))
    if nights:
        test = reframe_test(str(source.absolute()), judge(nights).seen, sys.executable)
        write_files({folder / REFRAME: test}, public=True)
    state = ", ".join(f"{name} {version}" for name, version in facts.stack.items() if "built" not in name)
    sys.stdout.write(f"kept in {folder}: {state}; {len(nights)} day(s) of launches\n  {said[0]}\n")
    sys.stdout.write(f"check it with: python -m autotune guard check {source}\n")
    return ExitCode.FINDING if proof and proof.refutes else ExitCode.WELL


@heeded()
def check(
    source: Path | None,
    quick: bool,
    minutes: float,
    against: str | None,
    rate: float,
    mpirun: str | None,
    own: Path | None,
    outputs: dict[str, Path | None],
    as_json: bool,
) -> int:
    """Say whether what was kept still holds: 0 same, 1 slower or not in effect, 3 inconclusive.

    ``against``: an older ``mpirun``, launched in turn with the one that is here; ``own``: where nights are
    added by those who may not write beside the settings.

    Raises:
        UserError: nothing was kept, or it is damaged.
        StackError: no MPI here.
        StorageError: the disk is full or read-only.
    """
    folder = _guarded(source)
    kept = read_kept(folder)
    target = own or folder
    place = _kept_place(kept, mpirun)
    facts = facts_of(place.installation, _files(place.files))
    nights = read_nights(*dict.fromkeys((folder, target)))
    differ = changes(kept.facts, facts, dict(place.recommendation.provenance.env) | _swept(place))
    with launching(target if os.access(target, os.W_OK) else None) as into:
        proof = _proof(place, into)
        wrong = (*_not_in_effect(place, differ), *([str(proof)] if proof and proof.refutes else []))
        told = Told(kept.date, differ, tuple(wrong), str(proof) if proof else "")
        launches: tuple[Launched, ...] = ()
        hosts: tuple[str, ...] = ()
        earlier = None if quick else _earlier(kept, place, against)
        if earlier is not None:
            told = _beside(told, kept, place, earlier, minutes, into)
        elif not quick:
            launches, hosts, problem = _night(place, into, minutes)
            told = replace(told, not_in_effect=(*told.not_in_effect, *([problem] if problem else [])))
    night = Night(_now(), facts.identity, launches, hosts)
    if launches:
        told = replace(told, verdict=judge(by_day((*nights, night)), rate))
    lost = tuple((slot_text(f.slot), f.since) for f in told.verdict.found) if told.verdict else ()
    _append(target, replace(night, said=(told.headline,), code=int(told.code), found=lost))
    _write(told, outputs)
    sys.stdout.write(json_text(told.document()) if as_json else told.text())
    return told.code


def history(source: Path | None, own: Path | None, as_json: bool) -> None:
    """Print what each night said.

    Raises:
        UserError: nothing was kept.
    """
    folder = _guarded(source)
    nights = read_nights(*dict.fromkeys((folder, own or folder)))
    if as_json:
        rows = [{"date": n.date, "code": n.code, "kept": n.kept, "launches": len(n.launches),
                 "state": n.state, "said": list(n.said)} for n in nights]  # fmt: skip
        sys.stdout.write(json_text(rows))
        return
    for night in nights:
        mark = "kept" if night.kept else str(night.code)
        sys.stdout.write(
            f"{night.date}  {mark:4}  {len(night.launches):3} launches  {'; '.join(night.said)}\n"
        )


def _guarded(source: Path | None) -> Path:
    """The folder of what was kept: below what is named, the variable, or the current directory."""
    named = source or Path(os.environ.get("AUTOTUNE_GUARD") or ".")
    folder = named / FOLDER
    if not (folder / KEPT).exists():
        raise UserError(f"{named} was not kept", f"first: python -m autotune guard keep {named}")
    return folder


def _kept_anew(source: Path, words: Sequence[str], mpirun: str | None, unasked: bool) -> _Place:
    """Settings in a campaign's directory, below a prefix, or in a folder of exported files."""
    from autotune.commands.hydra_bridge import run_task

    if (source / FILE).exists():
        if words:
            raise UserError(f"{words[0]}: {source} is a campaign", "it says itself how it is launched")
        campaign = read_campaign(source)
        check_trusted(source, campaign.about, unasked)
        if stamp := str(campaign.about.site.stamp):
            raise UserError(f"{source} is {stamp}: no MPI ran", "guard needs settings of a real MPI")
        launcher = dict(campaign.about.site.launcher)
        return _placed(campaign.recommended(), source / "export", campaign.about.scenario, launcher, mpirun)
    files = _installed(source, mpirun)
    recommendation = recommendation_of(user_text(files / "recommendation.json", raised=UserError))
    if recommendation.provenance.stamp:
        raise UserError(
            f"{source} is {recommendation.provenance.stamp}: no MPI ran", "guard needs a real MPI"
        )
    chosen: list[tuple[Scenario, dict[str, Any]]] = []

    def composed(scenario: Scenario, site: Site) -> int:
        chosen.append((scenario, dict(site.launched_by)))
        return ExitCode.WELL

    slots = [g.slot for g in recommendation.gains] or [
        (r.collective, r.comm_size, 1024) for r in recommendation.rules
    ]
    source_ = recommendation.provenance
    asked = [
        f"conf={_CONF[find(mpirun).flavour]}",
        f"collective=[{','.join(sorted({slot[0] for slot in slots}))}]",
        f"sizes=[{','.join(str(size) for size in sorted({slot[2] for slot in slots}))}]",
        f"cluster.nodes={source_.nodes}",
        *([f"cluster.ranks={source_.ranks}"] if source_.ranks else []),
        "campaign.dir=guard",
    ]
    if not slots:
        raise UserError(
            f"{files} sets nothing by size, and gains of no size are known", "export it with its gains"
        )
    run_task(composed, [*asked, *words])
    (scenario, launcher), both = chosen[0], dict(source_.both_sides)
    scenario = replace(scenario, mpi=replace(scenario.mpi, env={**scenario.mpi.env, **both}))
    return _placed(recommendation, files, scenario, launcher, mpirun)


def _installed(source: Path, mpirun: str | None) -> Path:
    """The folder of files, of the version that is here where there are several."""
    if (source / "recommendation.json").exists():
        return source
    trees = {path.parent.name: path.parent for path in sorted(source.glob("*/recommendation.json"))}
    here = f"openmpi-{find(mpirun).version}"
    if here in trees or len(trees) == 1:
        return trees.get(here) or next(iter(trees.values()))
    said = (
        f"below it: {', '.join(trees)}; here is {here}" if trees else "no recommendation.json there or below"
    )
    raise UserError(
        f"{source} holds no settings to keep", f"{said}; export --prefix PREFIX, or --format json, writes one"
    )


def _kept_place(kept: Kept, mpirun: str | None) -> _Place:
    recommendation = recommendation_of(json_text(kept.recommendation), KEPT)
    return _placed(recommendation, Path(kept.settings), restored(kept.scenario), dict(kept.launcher), mpirun)


def _placed(
    recommendation: Recommendation,
    files: Path,
    scenario: Scenario,
    launcher: dict[str, Any],
    mpirun: str | None,
) -> _Place:
    from autotune.commands.hydra_bridge import connected

    if mpirun:
        scenario = replace(scenario, mpi=replace(scenario.mpi, mpirun=mpirun, stack="any"))
    site = connected(launcher, scenario)
    flavour = site.stack.installation.flavour if site.stack else ""
    return _Place(recommendation, files, site, scenario, launcher, _format(recommendation, files, flavour))


def _format(recommendation: Recommendation, files: Path, flavour: str) -> str:
    """The first format that can be checked of which all files are there."""
    for name in dict.fromkeys((*dialect(flavour).formats, "env_sh")):
        made = exporter(name)
        if isinstance(made, Checkable):
            wanted = made.export(recommendation, files)
            if wanted and all((files / file).is_file() for file in wanted):
                return name
    raise UserError(
        f"{files} lacks the files that put the settings into effect", "export them again, and keep them"
    )


def recommendation_document(recommendation: Recommendation) -> dict[str, Any]:
    """As ``export --format json`` writes it."""
    import json

    document: dict[str, Any] = json.loads(next(iter(JsonDocument().export(recommendation, Path()).values())))
    return document


def settings_in(folder: Path, site: Site, into: Path) -> Callable[[Rendering], Rendering]:
    """What puts the settings in a folder into effect on launches of a site.

    Raises:
        UserError: they cannot be.
    """
    recommendation = recommendation_of(user_text(folder / "recommendation.json", raised=UserError))
    flavour = site.stack.installation.flavour if site.stack else ""
    return _recipe(recommendation, folder, _format(recommendation, folder, flavour), into).under


def _recipe(recommendation: Recommendation, files: Path, name: str, into: Path) -> Recipe:
    made = exporter(name)
    found = made.recipe(recommendation, files, into / "proof") if isinstance(made, Checkable) else None
    if found is None:
        raise UserError(f"{files}: nothing there can be put into effect by a launch", "export it again")
    return found


def _files(folder: Path) -> list[Path]:
    """Of the settings."""
    return sorted(path for path in folder.glob("*") if path.is_file())[:64]


def _swept(place: _Place) -> dict[str, str]:
    """Variables by which files put rules into effect."""
    return {"coll_tuned_use_dynamic_rules": "1"} if place.recommendation.rules else {}


def _not_in_effect(place: _Place, differ: Sequence[Change]) -> Iterator[str]:
    """Why what is installed does nothing here, or something else."""
    asked, here = guard_of(place.recommendation), place.installation
    if asked and (here.flavour, here.version) != ("openmpi", asked.openmpi):
        yield f"the files hold for {asked.versions} alone, and {place.site.description} is here"
    yield from (one.text for one in differ if one.breaks)


def _proof(place: _Place, into: Path) -> Proof | None:
    where = make_empty(into / "check")
    space, observers = place.site.space, place.site.observer
    return check_export(
        [place.name], place.recommendation, place.files, observers, place.measurement, space, where
    )


def _night(
    place: _Place, into: Path, minutes: float, each: int = EACH_NIGHT
) -> tuple[tuple[Launched, ...], tuple[str, ...], str]:
    """Launches of both sides in turn: what they showed, where, and why the settings are not in effect."""
    under, problem = place.recipe(into).under, ""
    made: list[Launched] = []
    hosts: list[str] = []
    for observation, tuned in _in_turn((None, under), [place, place], into, minutes, each):
        made.append(Launched.by(observation, tuned))
        hosts += observation.hosts
        if tuned and observation.status is Status.NOT_APPLIED:
            problem = problem or observation.reason
    return tuple(made), tuple(dict.fromkeys(hosts)), problem


def _in_turn(
    amended: Sequence[Any], places: Sequence[_Place], into: Path, minutes: float, each: int
) -> Iterator[tuple[Observation, bool]]:
    """Launches of two sides in an order that is drawn, whole blocks alone, as many as there is time for."""
    began, rng = time.monotonic(), np.random.default_rng()
    wanted = order(each, rng)
    longest = 0.0
    for number, (block, tuned) in enumerate(wanted, start=1):
        heed()
        first = number == 1 or wanted[number - 2][0] != block
        left_s = 60 * minutes - (time.monotonic() - began)
        if first and number > 1 and left_s < longest * sum(1 for other, _ in wanted if other == block):
            return
        trial = Trial(
            100 + number,
            Phase.VERIFY,
            places[tuned].site.space.default,
            Subject.UNTOUCHED,
            block,
            int(rng.integers(2**31)),
        )
        started = time.monotonic()
        observation = places[tuned].observe(amended[tuned], trial, into)
        longest = max(longest, time.monotonic() - started)
        said = "ok" if observation.ok else f"{observation.status}: {observation.reason}"
        sys.stderr.write(
            f"launch {number} of at most {len(wanted)}  {'settings' if tuned else 'default'}  {said}\n"
        )
        yield observation, tuned


def _earlier(kept: Kept, place: _Place, against: str | None) -> str | None:
    """The launcher of the version before, where it still is and another one is here; None: it is not."""
    if against:
        return against
    before = Path(kept.facts.mpirun)
    if not before.exists() or before.samefile(place.installation.mpirun):
        return None
    try:
        version = find(str(before)).version
    except StackError:
        return None
    return (
        str(before)
        if version in kept.facts.stack.values() and version != place.installation.version
        else None
    )


def _beside(told: Told, kept: Kept, place: _Place, earlier: str, minutes: float, into: Path) -> Told:
    """What launches of the settings say of the MPI before and the one that is here, in turn."""
    before = _kept_place(kept, earlier)
    unders = [one.recipe(into).under for one in (before, place)]
    sides: tuple[list[Observation], list[Observation]] = ([], [])
    for observation, tuned in _in_turn(unders, (before, place), into, minutes, EACH_NIGHT):
        sides[tuned].append(observation)
    blocks, design = blocks_of(*sides), SequentialDesign()
    names = [f"{one.site.description}" for one in (before, place)]
    said, judged = claims(blocks, design), compare(blocks, design)
    lines = [f"speed under {names[1]} over that under {names[0]}, {sum(map(len, sides))} launches in turn:"]
    lines += [
        f"{'SLOWER ' if c.slot in said.loses else ''}{slot_text(c.slot)}: "
        f"{ratio_text(float(np.exp(c.gain)), (float(np.exp(c.low)), float(np.exp(c.high))))}"
        for c in judged
    ]
    if said.loses:
        lines.insert(0, f"slower than under {names[0]} at {', '.join(map(slot_text, sorted(said.loses)))}")
    elif not judged or said.open:
        lines.insert(
            0, "a loss of 10 % is not excluded everywhere: more launches would resolve it (--minutes)"
        )
    return replace(told, other=tuple(lines), lost=bool(said.loses), open=not judged or bool(said.open))


@contextmanager
def launching(folder: Path | None) -> Iterator[Path]:
    """A folder for launches, which every node sees and nobody keeps."""
    above = folder or Path.home() / ".cache" / "autotune-guard"
    into = make_empty(above / f"launches-{os.getpid()}")
    try:
        yield into
    finally:
        shutil.rmtree(into, ignore_errors=True)


def _append(folder: Path, night: Night) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        add_night(folder, night)
    except OSError as exc:
        hint = "--to DIR adds it in a folder of your own"
        sys.stderr.write(f"not added to the history: {folder}: {exc.strerror}; {hint}\n")


def _write(told: Told, outputs: dict[str, Path | None]) -> None:
    texts = {"junit": told.junit, "metrics": lambda: told.metrics(time.time()), "motd": told.day_message}
    files = {path: texts[name]() for name, path in outputs.items() if path is not None}
    write_files(files, parents=True)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
