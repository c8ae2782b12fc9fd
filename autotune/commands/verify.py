"""``verify``: compare a recommendation with the defaults, or with another tuning, on fresh launches."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.campaign.apart import APART, why_apart
from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.campaign.interruption import heeded
from autotune.campaign.observing import Measurement, Observer, measurement_of
from autotune.campaign.spec import BenchKind, CampaignSpec
from autotune.campaign.turns import Side, Turn, are_heats, take_turns
from autotune.commands.companions import environment_of
from autotune.commands.trust import check_trusted
from autotune.errors import CampaignError, ExitCode, UserError
from autotune.exporters.writing import write_files
from autotune.history.objectives import known_end, place_text, ratio_of
from autotune.history.trial import Observation, Phase, Subject, Trial
from autotune.recommend.other_calls import OtherDecision
from autotune.recommend.recommendation import Recommendation
from autotune.resources import user_text
from autotune.text_table import html_table
from autotune.verification.blocks import blocks_of
from autotune.verification.comparison import Comparison, SlotDecision, compare, decided, overall
from autotune.verification.failed import NO_FAILURES, Failures
from autotune.verification.other_calls import other_calls
from autotune.verification.sequential import SequentialDesign
from autotune.views.documents import answer_text
from autotune.views.text import ratio_text, size_text

if TYPE_CHECKING:
    from autotune.campaign.bench import Bench

RESULT = "verification.json"  # Name of the file with the result, in the directory of a verification.

_PLACES = ("mpirun", "library")  # Findings that are paths; these may differ between equal installations.

_SAID = {"still better": "still ", "no longer": "no longer ", "better": "", "not better": "not "}
"""Maps each decision to the words that precede "better than" in the sentence about it."""


@dataclass(frozen=True, slots=True)
class Verification:
    """Holds the result of a comparison on fresh launches."""

    holds: bool
    """Whether no gain that the campaign found is lost, no slot (collective, communicator size, message size)
    is slower, and launches of the setting fail no more often."""
    comparisons: tuple[Comparison, ...]
    """The comparison in each slot that both sides measured."""
    text: str
    """The result in words, as the command prints it."""
    document: Mapping[str, Any]
    """The result as JSON values."""
    path: Path
    """File with the result as JSON."""

    def _repr_html_(self) -> str:
        ratios = [[ratio_of(end) for end in (c.gain, c.low, c.high)] for c in self.comparisons]
        rows = [
            (place_text(c.slot), ratio_text(ratio, (low, high)), c.decision)
            for c, (ratio, low, high) in zip(self.comparisons, ratios, strict=True)
        ]
        caption = "holds" if self.holds else "does not hold"
        return html_table(f"verification: {caption}", ("call", "speed-up (95 %)", "decision"), rows)


def verify(
    directory: Path, launches: int | None, against: tuple[Path, ...], as_json: bool, unasked: bool = False
) -> int:
    """Make a verification, print the result for each slot, and return the exit code.

    The exit code is ``FINDING`` if the recommendation does not hold. For the arguments and errors see
    ``verified``.
    """
    result = verified(directory, launches, against, unasked)
    print_result(answer_text("verify", result.document), result.path, result.text, as_json)
    return ExitCode.WELL if result.holds else ExitCode.FINDING


@heeded()
def verified(
    directory: Path, launches: int | None, against: tuple[Path, ...], unasked: bool = False
) -> Verification:
    """Compare a recommendation with the defaults or with another tuning, and write the result into a file.

    A slot is a collective, a communicator size and a message size. ``launches`` is the number of launches of
    both settings together; None means as many as the scenario says. ``against`` is the directory of another
    campaign, or parameter files; empty means the defaults.

    Raises:
        UserError: the campaign has no recommendation, or there is nothing to compare it with.
        JournalError: other users could have written the journal, or the user did not agree to start the
            programs that the journal names.
        CampaignError: the launches of the two settings could not be compared in any slot.
        Interrupted: the user ended the verification.
    """
    from autotune.commands.hydra_bridge import connected

    campaign = read_campaign(directory)
    recommendation, about = campaign.recommended(), campaign.about
    if about.bench.stamp.kind is BenchKind.REPLAYED:
        raise UserError(f"{directory} replayed a table", "there is nothing that could be launched again")
    options, design = about.scenario.verify, design_of(about, launches)
    check_trusted(directory, about, unasked)
    bench = connected(about.bench.launcher, about.scenario.alone)
    target = new_folder(directory)
    measurement = measurement_of(about.scenario, bench.placement.ranks)
    observer = bench.observer(measurement, about.space, target)
    tuned_notes = _changed(str(directory), campaign, bench)
    tuned_side = _Side(str(directory), observer, Subject.DEPLOYED, recommendation, tuned_notes)
    reference = _reference(against, bench, measurement, about, target, unasked)

    entrants = (reference.side, tuned_side.side)
    design = replace(design, heats=about.scenario.launch.heats and are_heats(entrants))
    sides, failures, comparisons = compare_sides(design, entrants, partial(_report, entrants, design))
    if not (comparisons or failures.more):
        reasons = {o.reason for side in sides for o in side if not o.ok}
        raise CampaignError(f"no launches of both sides could be compared: {'; '.join(sorted(reasons)[:3])}")
    total = overall(blocks_of(*sides), frozenset(c.slot for c in comparisons)) if comparisons else None
    by_other_loop = {c.slot: c for c in compare(blocks_of(*sides, other_loop=True), design)}
    # A setting that consists only of decision rules affects no other call.
    changes_other_calls = not against and about.space.says(recommendation.point)
    other_decisions = other_calls(chain(*sides), design) if changes_other_calls else ()
    gaining_slots = set() if against else {g.slot for g in recommendation.gains if g.interval[0] > 1.0}
    document = {
        "campaign": about.scenario.title,
        "stamp": str(about.bench.stamp),
        "tuned": tuned_side.name,
        "against": [str(path) for path in against] or ["untouched"],
        "notes": [*tuned_side.notes, *reference.notes],
        "launches": sum(map(len, sides)),
        "other_loop": about.scenario.other_loop if by_other_loop else "",
        "failures": failures.between_text(tuned_side.name, reference.name),
        "overall": _document(total, bool(gaining_slots)) if total else None,
        "slots": [_document(c, c.slot in gaining_slots, by_other_loop.get(c.slot)) for c in comparisons],
        "other_calls": [asdict(call) for call in other_decisions],
    }
    path = target / RESULT
    write_result("verify", document, path)
    gain_is_lost = any(c.decision is SlotDecision.NO_LONGER and c.slot in gaining_slots for c in comparisons)
    counted = [*comparisons, *(by_other_loop.values() if options.other_loop == "counts" else ())]
    worse = gain_is_lost or failures.more or any(c.loses for c in counted)
    text = _text(document, (tuned_side.name, reference.name))
    return Verification(not worse, tuple(comparisons), text, document, path)


def _report(
    entrants: tuple[Side, Side], design: SequentialDesign, block: Sequence[tuple[Turn, Observation]]
) -> None:
    for turn, observation in block:
        status_text = "ok" if observation.ok else f"{observation.status}: {observation.reason}"
        status_text += f", {APART}: {why}" if (why := why_apart(observation)) else ""
        name = entrants[turn.side].name
        sys.stderr.write(f"launch {turn.number} of at most {design.launches}  {name}  {status_text}\n")


def compare_sides(
    design: SequentialDesign,
    entrants: tuple[Side, Side],
    after_block: Callable[[Sequence[tuple[Turn, Observation]]], None],
) -> tuple[tuple[list[Observation], list[Observation]], Failures, tuple[Comparison, ...]]:
    """Launch a reference and a setting in turn until the comparison is decided in every slot.

    ``after_block`` is called with the launches of each block; an exception that it raises ends the
    comparison. Return the launches of each side, how often they failed, and the comparison in each slot.
    """
    sides: tuple[list[Observation], list[Observation]] = ([], [])
    failures = NO_FAILURES
    comparisons: tuple[Comparison, ...] = ()
    for block in take_turns(entrants, design):
        after_block(block)
        for turn, observation in block:
            sides[turn.side].append(observation)
        failures, comparisons = Failures.between(*reversed(sides)), compare(blocks_of(*sides), design)
        if comparisons and decided(comparisons) and not failures.unsettled:
            break
    return sides, failures, comparisons


def design_of(about: CampaignSpec, launches: int | None) -> SequentialDesign:
    """Return the design of a verification with so many launches in total; None: as the scenario says."""
    options = about.scenario.verify
    return SequentialDesign.of(
        launches or 2 * options.launches, options.error_rate, options.max_loss, options.margin
    )


def new_folder(directory: Path, kind: str = "") -> Path:
    """Return the directory for the result of a verification that begins now; ``kind`` precedes the date."""
    return directory / "verifications" / datetime.now(UTC).strftime(f"{kind}%Y-%m-%dT%H-%M-%SZ")


def write_result(name: str, document: Mapping[str, Any], path: Path) -> str:
    """Write a verification's result into a file as the JSON document ``name``, and return this document."""
    answer = answer_text(name, document)
    write_files({path: answer}, parents=True, below=path.parent)
    return answer


def print_result(answer: str, path: Path, text: str, as_json: bool) -> None:
    """Print a verification's result, which the file ``path`` has, as text or as its JSON document."""
    sys.stdout.write(answer if as_json else f"{text}kept in {path.parent}\n")


@dataclass(frozen=True)
class _Side:
    """Describes one of the two settings that are compared, with the observer that launches it."""

    name: str
    observer: Observer
    subject: Subject
    setting: Recommendation
    notes: tuple[str, ...] = ()  # Differences of the machine from the time when the setting was measured.

    @property
    def side(self) -> Side:
        """Return the form in which ``take_turns`` launches this setting in turn with the other setting."""
        return Side(self.name, self.observer, self._trial)

    def _trial(self, turn: Turn) -> Trial:
        rules = self.setting.rules if self.subject is Subject.DEPLOYED else ()
        about = (Phase.VERIFY, self.setting.point, self.subject, turn.block, turn.seed)
        return Trial(turn.number, *about, rules=rules)


def _reference(
    against: tuple[Path, ...],
    bench: "Bench",
    measurement: Measurement,
    about: CampaignSpec,
    target: Path,
    unasked: bool,
) -> _Side:
    """Return the setting to compare with: the defaults, another campaign's recommendation, or files.

    Raises:
        UserError: ``against`` names several campaigns, both campaigns and files, a campaign that was
            simulated while this one was not (or vice versa), or files that set nothing or have no effect.
        JournalError: for the same reasons as in ``verify``.
    """
    from autotune.commands.hydra_bridge import connected

    defaults = Recommendation(about.space.default, ())
    if not against:
        observer = bench.observer(measurement, about.space, target)
        return _Side("the defaults", observer, Subject.UNTOUCHED, defaults)
    name = ", ".join(map(str, against))
    if len(against) == 1 and against[0].is_dir():
        other_campaign = read_campaign(against[0])
        recommendation, other_about = other_campaign.recommended(), other_campaign.about
        check_trusted(other_campaign.path, other_about, unasked)
        if other_about.bench.stamp != about.bench.stamp:
            stamps = [str(description.bench.stamp) or "of a real MPI" for description in (other_about, about)]
            raise UserError(f"{name} is {stamps[0]}, what it is compared with {stamps[1]}")
        # The other campaign's MPI and launcher are used, on the hosts and ranks of this campaign.
        other_site = connected(
            other_about.bench.launcher, replace(other_about.scenario.alone, cluster=about.scenario.cluster)
        )
        observer = other_site.observer(measurement, other_about.space, target)
        notes = _changed(name, other_campaign, other_site)
        return _Side(name, observer, Subject.DEPLOYED, recommendation, notes)
    if any(path.is_dir() for path in against):
        raise UserError("--against takes one campaign, or files", "not both, and not several campaigns")
    if bench.stack is None:
        raise UserError(f"{bench.description}: files have no effect there", "compare on a real MPI")
    env: dict[str, str] = {}
    for path in against:
        env |= environment_in(path)
    if not env:
        raise UserError(f"{name}: nothing is set there", "see: autotune lint FILE")
    amended = replace(measurement, amended=lambda rendering: replace(rendering, env={**rendering.env, **env}))
    return _Side(name, bench.observer(amended, about.space, target), Subject.UNTOUCHED, defaults)


def _changed(name: str, campaign: CampaignDirectory, bench: "Bench") -> tuple[str, ...]:
    about, placement = campaign.about.bench, bench.placement
    former = {"stack": about.description, "size": f"{about.ranks} ranks on {about.nodes} node(s)"}
    current = {"stack": bench.description, "size": f"{placement.ranks} ranks on {placement.nodes} node(s)"}
    former, current = former | dict(about.findings), current | dict(bench.findings)
    return tuple(
        f"{name} was measured with {key}: {former[key]}; now: {value}"
        for key, value in current.items()
        if key not in _PLACES and former.get(key, value) != value
    )


def environment_in(path: Path) -> dict[str, str]:
    """Return the environment variables that a parameter file or script sets.

    Raises:
        UserError: the file cannot be read, or its kind is unknown.
    """
    env = environment_of(path, user_text(path, raised=UserError))
    if env is None:
        raise UserError(f"{path} is of an unknown kind", "its settings are unknown: see lint")
    return env


def _document(
    comparison: Comparison, was_better: bool, by_other_loop: Comparison | None = None
) -> dict[str, Any]:
    """Return the result in a slot as JSON values.

    The decision can be *still better* or *no longer* only in a slot in which the campaign had found a gain
    (``was_better``).
    """
    plain = {SlotDecision.STILL_BETTER: "better", SlotDecision.NO_LONGER: "not better"}
    decision = str(comparison.decision)
    return {
        **asdict(comparison),
        "decision": decision if was_better else plain.get(comparison.decision, decision),
        "speedup": ratio_of(comparison.gain),
        "in_other_loop": by_other_loop
        and {
            "gain": ratio_of(by_other_loop.gain),
            "low": known_end(ratio_of(by_other_loop.low)),
            "high": known_end(ratio_of(by_other_loop.high)),
        },
    }


def _text(document: Mapping[str, Any], names: tuple[str, str]) -> str:
    tuned, reference = names
    stamp = f"  {document['stamp']}" if document["stamp"] else ""
    lines = [f"speed of {tuned} over that of {reference}, on {document['launches']} fresh launches:{stamp}"]
    lines += [f"  note: {note}" for note in document["notes"]]
    if document["failures"]:
        lines.append(f"  failed: {document['failures']}")
    for row in filter(None, (*document["slots"], document["overall"])):
        collective, comm_size, size = row["slot"]
        slot_text = (
            f"{collective}, {comm_size} ranks, {size_text(size)}" if comm_size else "all, geometric mean"
        )
        times = ratio_text(row["speedup"], (ratio_of(row["low"]), ratio_of(row["high"])))
        decision = row["decision"]
        if row["loses"]:
            decision = f"{tuned} LOSES against {reference}"
        elif decision in _SAID:
            decision = f"{tuned} is {_SAID[decision]}better than {reference}"
        elif decision == SlotDecision.INCONCLUSIVE:
            decision = f"{tuned} against {reference}: inconclusive"
        if ratios := row["in_other_loop"]:
            decision += (
                f"; {document['other_loop']} {ratio_text(ratios['gain'], (ratios['low'], ratios['high']))}"
            )
        lines.append(f"  {slot_text:36} {times:24} {decision}")
    for call in document["other_calls"]:
        if call["decision"] != OtherDecision.NOT_SLOWER:
            slot_text = f"{call['name']}, {size_text(call['message_bytes'])}{', tight' * call['tight']}"
            times = ratio_text(call["ratio"], (call["low"], call["high"]))
            lines.append(f"  {slot_text:36} {times:24} another call: {call['decision']}")
    return "\n".join(lines) + "\n"
