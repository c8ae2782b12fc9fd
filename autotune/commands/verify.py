"""``verify``: a recommendation against the defaults, or against another tuning, on fresh launches."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.campaign.description import Description, SiteKind
from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.campaign.heats import at_once, observe_heat
from autotune.campaign.interruption import check, heeded
from autotune.campaign.observing import Measurement, Observer, measurement_of
from autotune.commands.trust import check_trusted
from autotune.errors import CampaignError, ExitCode, UserError
from autotune.exporters.writing import write_files
from autotune.history.objectives import ratio_of
from autotune.history.trial import Observation, Phase, Subject, Trial
from autotune.lint import environment_of, kind_of
from autotune.recommend.recommendation import Recommendation
from autotune.resources import user_text
from autotune.verification.blocks import blocks_of, order
from autotune.verification.comparison import Comparison, SlotDecision, compare, decided, overall
from autotune.verification.failed import NO_FAILURES, Failures
from autotune.verification.sequential import SequentialDesign
from autotune.views.documents import json_text
from autotune.views.text import ratio_text, size_text

if TYPE_CHECKING:
    from autotune.campaign.site import Site

RESULT = "verification.json"  # Result of a verification, in its directory.

_PLACES = ("mpirun", "library")  # Findings that may differ where nothing else does.

_SAID = {"still better": "still ", "no longer": "no longer ", "better": "", "not better": "not "}
"""Decision → its words in a sentence."""


@heeded()
def verify(
    directory: Path, launches: int | None, against: tuple[Path, ...], as_json: bool, unasked: bool = False
) -> int:
    """Compare, print slot by slot, and say 1 where a gain is gone, anything loses, or more launches fail.

    ``unasked``: without a question what the journal of somebody else names.

    Raises:
        UserError: nothing to compare, or nothing to compare with.
        JournalError: others could have written what would be started, or nobody said yes to it.
        CampaignError: no launches of both sides could be compared.
        Interrupted: the user ended it.
    """
    from autotune.commands.hydra_bridge import connected

    campaign = read_campaign(directory)
    recommendation, about = campaign.recommended(), campaign.about
    if about.site.stamp.kind is SiteKind.REPLAYED:
        raise UserError(f"{directory} replayed a table", "there is nothing that could be launched again")
    asked, design = about.scenario.verify, design_of(about, launches)
    check_trusted(directory, about, unasked)
    site = connected(about.site.launcher, about.scenario.alone)
    target = folder_now(directory)
    measurement = measurement_of(about.scenario, site.placement.ranks)
    ours = site.observer(measurement, about.space, target)
    here = _changed(str(directory), campaign, site)
    tuned_side = _Side(str(directory), ours, Subject.DEPLOYED, recommendation, here)
    reference = _reference(against, site, measurement, about, target, unasked)

    design = replace(design, heats=asked.heats and at_once(ours, reference.observer))

    def launched(places: Sequence[Place]) -> Sequence[Observation]:
        entrants = [(tuned_side if place.tuned else reference, place) for place in places]
        observations = made(design, [(side.observer, side.trial(place)) for side, place in entrants])
        for (side, place), observation in zip(entrants, observations, strict=True):
            how = "ok" if observation.ok else f"{observation.status}: {observation.reason}"
            sys.stderr.write(f"launch {place.number} of at most {design.launches}  {side.name}  {how}\n")
        return observations

    sides, failures, judged = both_sides(design, launched)
    if not (judged or failures.more):
        reasons = {o.reason for side in sides for o in side if not o.ok}
        raise CampaignError(f"no launches of both sides could be compared: {'; '.join(sorted(reasons)[:3])}")
    total = overall(blocks_of(*sides), frozenset(c.slot for c in judged)) if judged else None
    otherwise = {c.slot: c for c in compare(blocks_of(*sides, other_loop=True), design)}
    had = set() if against else {g.slot for g in recommendation.gains if g.interval[0] > 1.0}
    document = {
        "campaign": about.scenario.title,
        "stamp": str(about.site.stamp),
        "tuned": tuned_side.name,
        "against": [str(path) for path in against] or ["untouched"],
        "notes": [*tuned_side.notes, *reference.notes],
        "launches": sum(map(len, sides)),
        "other_loop": about.scenario.other_loop if otherwise else "",
        "failures": failures.between_text(tuned_side.name, reference.name),
        "overall": _document(total, bool(had)) if total else None,
        "slots": [_document(c, c.slot in had, otherwise.get(c.slot)) for c in judged],
    }
    keep(document, target / RESULT, _text(document, (tuned_side.name, reference.name)), as_json)
    gone = any(c.decision is SlotDecision.NO_LONGER and c.slot in had for c in judged)
    counting = [*judged, *(otherwise.values() if asked.other_loop == "counts" else ())]
    worse = gone or failures.more or any(c.loses for c in counting)
    return ExitCode.FINDING if worse else ExitCode.WELL


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a launch in a comparison of two sides."""

    number: int  # From 1.
    block: int  # Its block's number.
    tuned: bool  # Whether it is the setting's, or the reference's.
    seed: int  # Of everything random in it.


def made(design: SequentialDesign, entrants: Sequence[tuple[Observer, Trial]]) -> tuple[Observation, ...]:
    """Launch the trials of a block, all at once where the design has heats.

    Raises:
        Interrupted: the user ended it.
    """
    if design.heats:
        check()
        return observe_heat(entrants)
    observations = []
    for observer, trial in entrants:
        check()
        observations.append(observer.observe(trial))
    return tuple(observations)


def both_sides(
    design: SequentialDesign, launched: Callable[[Sequence[Place]], Sequence[Observation]]
) -> tuple[tuple[list[Observation], list[Observation]], Failures, tuple[Comparison, ...]]:
    """Launches of reference and setting in turn until every slot is decided, their failures, and the slots.

    ``launched``: makes the launches of a block, in this order.
    """
    sides: tuple[list[Observation], list[Observation]] = ([], [])
    failures = NO_FAILURES
    judged: tuple[Comparison, ...] = ()
    for places in in_turn(design):
        for place, observation in zip(places, launched(places), strict=True):
            sides[place.tuned].append(observation)
        failures, judged = Failures.between(*reversed(sides)), compare(blocks_of(*sides), design)
        if judged and decided(judged) and not failures.unsettled:
            break
    return sides, failures, judged


def design_of(about: Description, launches: int | None) -> SequentialDesign:
    """How many launches, and what may be said by chance, as the scenario asks or in so many launches."""
    asked = about.scenario.verify
    return SequentialDesign.of(launches or 2 * asked.launches, asked.error_rate, asked.max_loss, asked.margin)


def folder_now(directory: Path, kind: str = "") -> Path:
    """Where what is verified now is kept."""
    return directory / "verifications" / datetime.now(UTC).strftime(f"{kind}%Y-%m-%dT%H-%M-%SZ")


def in_turn(design: SequentialDesign) -> Iterator[tuple[Place, ...]]:
    """The launches of each block in the order that is drawn; whoever knows enough takes no more of them."""
    rng = np.random.default_rng()
    drawn = order(design.own, rng, design.each if design.heats else None)
    places = [
        Place(number, block, tuned, int(rng.integers(2**31)))
        for number, (block, tuned) in enumerate(drawn, start=1)
    ]
    for _, block_places in groupby(places, key=attrgetter("block")):
        yield tuple(block_places)


def keep(document: Mapping[str, Any], path: Path, text: str, as_json: bool) -> None:
    """Write what was found into a file, and print it."""
    write_files({path: json_text(document)}, parents=True, below=path.parent)
    sys.stdout.write(json_text(document) if as_json else f"{text}kept in {path.parent}\n")


@dataclass(frozen=True)
class _Side:
    """One of the two settings that are compared, and how its launches are made."""

    name: str
    observer: Observer
    subject: Subject
    setting: Recommendation
    notes: tuple[str, ...] = ()  # Differences from the time when it was measured.

    def trial(self, place: Place) -> Trial:
        """Its launch at a place."""
        rules = self.setting.rules if self.subject is Subject.DEPLOYED else ()
        about = (Phase.VERIFY, self.setting.point, self.subject, place.block, place.seed)
        return Trial(place.number, *about, rules=rules)


def _reference(
    against: tuple[Path, ...],
    site: "Site",
    measurement: Measurement,
    about: Description,
    target: Path,
    unasked: bool,
) -> _Side:
    """The other side: the defaults, another campaign's recommendation, or somebody's files."""
    from autotune.commands.hydra_bridge import connected

    nothing = Recommendation(about.space.default, ())
    if not against:
        observer = site.observer(measurement, about.space, target)
        return _Side("the defaults", observer, Subject.UNTOUCHED, nothing)
    name = ", ".join(map(str, against))
    if len(against) == 1 and against[0].is_dir():
        other = read_campaign(against[0])
        recommendation, its = other.recommended(), other.about
        check_trusted(other.path, its, unasked)
        if its.site.stamp != about.site.stamp:
            kinds = [str(one.site.stamp) or "of a real MPI" for one in (its, about)]
            raise UserError(f"{name} is {kinds[0]}, what it is compared with {kinds[1]}")
        # Their MPI and launcher, on as many ranks as ours.
        theirs = connected(its.site.launcher, replace(its.scenario.alone, cluster=about.scenario.cluster))
        observer, notes = theirs.observer(measurement, its.space, target), _changed(name, other, theirs)
        return _Side(name, observer, Subject.DEPLOYED, recommendation, notes)
    if any(path.is_dir() for path in against):
        raise UserError("--against takes one campaign, or files", "not both, and not several campaigns")
    if site.stack is None:
        raise UserError(f"{site.description}: files have no effect there", "compare on a real MPI")
    env: dict[str, str] = {}
    for path in against:
        env |= environment_in(path)
    if not env:
        raise UserError(f"{name}: nothing is set there", "see: autotune lint FILE")
    amended = replace(measurement, amended=lambda rendering: replace(rendering, env={**rendering.env, **env}))
    return _Side(name, site.observer(amended, about.space, target), Subject.UNTOUCHED, nothing)


def _changed(name: str, campaign: CampaignDirectory, site: "Site") -> tuple[str, ...]:
    """In what a campaign's launches of now differ from those that it was measured by."""
    about, place = campaign.about.site, site.placement
    was = {"stack": about.description, "size": f"{about.ranks} ranks on {about.nodes} node(s)"}
    now = {"stack": site.description, "size": f"{place.ranks} ranks on {place.nodes} node(s)"}
    was, now = was | dict(about.findings), now | dict(site.findings)
    return tuple(
        f"{name} was measured with {what}: {was[what]}; now: {found}"
        for what, found in now.items()
        if what not in _PLACES and was.get(what, found) != found
    )


def environment_in(path: Path) -> dict[str, str]:
    """Variables set by a file.

    Raises:
        UserError: it cannot be read, or is of no known kind.
    """
    text = user_text(path, raised=UserError)
    if kind_of(path, text) == "other":
        raise UserError(f"{path} is of an unknown kind", "its settings are unknown: see lint")
    return environment_of(path, text)


def _document(c: Comparison, was_better: bool, otherwise: Comparison | None = None) -> dict[str, Any]:
    """A slot's result as values; *still* and *no longer* need a slot that was better before."""
    other = otherwise and {key: ratio_of(getattr(otherwise, key)) for key in ("gain", "low", "high")}
    plain = {SlotDecision.STILL_BETTER: "better", SlotDecision.NO_LONGER: "not better"}
    decision = str(c.decision) if was_better else plain.get(c.decision, str(c.decision))
    return {**asdict(c), "decision": decision, "speedup": ratio_of(c.gain), "in_other_loop": other}


def _text(document: Mapping[str, Any], names: tuple[str, str]) -> str:
    """A line for each slot; each says which side is which."""
    tuned, reference = names
    stamp = f"  {document['stamp']}" if document["stamp"] else ""
    lines = [f"speed of {tuned} over that of {reference}, on {document['launches']} fresh launches:{stamp}"]
    lines += [f"  note: {note}" for note in document["notes"]]
    if document["failures"]:
        lines.append(f"  failed: {document['failures']}")
    for one in filter(None, (*document["slots"], document["overall"])):
        collective, comm_size, size = one["slot"]
        where = f"{collective}, {comm_size} ranks, {size_text(size)}" if comm_size else "all, geometric mean"
        times = ratio_text(one["speedup"], (ratio_of(one["low"]), ratio_of(one["high"])))
        said = one["decision"]
        if one["loses"]:
            said = f"{tuned} LOSES against {reference}"
        elif said in _SAID:
            said = f"{tuned} is {_SAID[said]}better than {reference}"
        elif said == SlotDecision.INCONCLUSIVE:
            said = f"{tuned} against {reference}: inconclusive"
        if other := one["in_other_loop"]:
            said += f"; {document['other_loop']} {ratio_text(other['gain'], (other['low'], other['high']))}"
        lines.append(f"  {where:36} {times:24} {said}")
    return "\n".join(lines) + "\n"
