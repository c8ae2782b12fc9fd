"""Whether the exported files do on a fresh launch what they say (the end of step 12).

Two launches apply the exported files, as the printed line for users does, and set nothing else but
what both sides were measured with. In the first each rank compares the values in effect (its environment,
Open MPI's control variables, UCX's configuration) with what was exported; all other control variables are
compared with those of an untouched launch. In the second every row of the rules names an algorithm that does
not exist: MPI then refuses exactly those calls that reach a row, size by size. All make each call once;
nothing is timed, so that a busy machine changes nothing.

A component above the one that reads the rules may set itself up by small calls on the same communicator and
die of their refusal, as ``coll_han`` of Open MPI 5.0 does. Where the second launch dies, a third one spares
small calls; where that one dies too, nothing is known of the rules.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from autotune.campaign.observing import Measurement, Observers, parameters
from autotune.errors import UserError
from autotune.exporters import exporter
from autotune.exporters.writing import write_files
from autotune.history.objectives import Slot, slot_of
from autotune.history.trial import Observation, Phase, Status, Subject, Trial
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.resources import user_text
from autotune.space import Space
from autotune.stacks.knobs.openmpi import NEVER_SET
from autotune.stacks.ports import Rendering
from autotune.structure import parsed

Amended = Callable[[Rendering], Rendering]  # What becomes of a rendering.
_Look = Callable[[Trial, Amended], Observation]  # A launch under amended settings.

PROOF_FILE = "proof.json"  # Name of the outcome beside the exported files.

SPARED_BYTES = 1024  # What a library sets itself up by is smaller: a few numbers of each rank.


@dataclass(frozen=True, slots=True)
class Proof:
    """Result of the launches under the exported files."""

    variables: int  # Parameters and variables that each rank must see.
    variables_seen: bool  # Whether each rank saw them all.
    rows: int  # Measured sizes that should reach a row of the rules.
    rows_reached: int  # Of them those that did.
    strays: int  # Measured sizes that reached a row although the stack should have decided.
    reason: str = ""  # In words, where something was not as exported, or could not be seen.
    unseen: bool = False  # Whether a launch that should have shown it died: neither proved nor refuted.
    as_a_whole: bool = False  # Whether the library was seen to read the rules by its refusal of invalid ones.

    @property
    def holds(self) -> bool:
        """Whether the files do what they say."""
        return self.variables_seen and self.rows_reached == self.rows and not (self.strays or self.unseen)

    @property
    def refutes(self) -> bool:
        """Whether the files do not do what they say."""
        return not (self.holds or self.unseen)

    def __str__(self) -> str:
        if self.holds:
            rows = f", {self.rows} of {self.rows} measured sizes with a rule reach it" if self.rows else ""
            rows += ", and the library reads the rules: it refuses an invalid one" if self.as_a_whole else ""
            return f"proved on fresh launches: {self.variables} parameters seen by every rank{rows}"
        return f"{'could not be checked' if self.unseen else 'NOT PROVED'}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Recipe:
    """The way to apply the files of one format, and to undo it, by fresh launches."""

    variables: Collection[str]  # Parameters and variables that the files set, as the library calls them.
    under: Callable[[Rendering], Rendering]
    """An untouched launch that sees the files, and must find what they set."""
    invalid: Callable[[int], Mapping[str, str]]
    """The files again, with algorithms that do not exist for messages from so many bytes on; empty: there are
    no rules to be reached."""
    under_invalid: Callable[[Rendering], Rendering]  # An untouched launch that sees the invalid files.
    covers: Callable[[Slot], bool]  # Whether a call reaches a row that names an algorithm.
    as_a_whole: bool = False  # Whether the library refuses invalid files as it starts, not call by call.


@runtime_checkable
class Checkable(Protocol):
    """A format whose files can be checked on fresh launches."""

    def recipe(self, recommendation: Recommendation, directory: Path, invalid: Path) -> Recipe | None:
        """The check of files; ``invalid``: where the second launch's go. None: they cannot be applied."""


def check_export(
    formats: Sequence[str],
    recommendation: Recommendation,
    directory: Path,
    observers: Observers,
    measurement: Measurement,
    space: Space,
    into: Path | None = None,
) -> Proof | None:
    """Launch under the files in a directory, and leave the outcome beside them, or in another one.

    Of these formats the first one that can be checked is.

    Returns:
        What was found; None where no format can be checked, or nothing is set.

    Raises:
        StackError: nothing can be launched at all.
        StorageError: the disk is full or read-only.
    """
    place = (into or directory) / "proof"
    checkable = (made for made in map(exporter, formats) if isinstance(made, Checkable))
    recipes = (made.recipe(recommendation, directory, place) for made in checkable)
    recipe = next((found for found in recipes if found is not None), None)
    if recipe is None or not recipe.variables:
        return None
    probe = measurement.probe
    # Patterns obey no rules and are not called; a launch that calls nothing would have seen nothing.
    more = () if recommendation.rules or "barrier" in probe.collectives else ("barrier",)
    probe = replace(probe, reach=True, collectives=(*probe.collectives, *more))

    def look(trial: Trial, amended: Amended) -> Observation:
        return observers(replace(measurement, probe=probe, amended=amended), space, place).observe(trial)

    untouched = Trial(1, Phase.VERIFY, space.default, Subject.UNTOUCHED)
    plain = look(untouched, recipe.under)
    unseen = plain.status not in (Status.OK, Status.NOT_APPLIED)
    proof = Proof(len(recipe.variables), plain.ok, 0, 0, 0, plain.reason, unseen)
    if plain.ok:
        proof = _others(proof, look, place, untouched, recipe, recommendation.provenance)
    sound = plain.ok and not (proof.reason or proof.unseen)
    if sound and recipe.as_a_whole and (files := recipe.invalid(0)):
        write_files({place / name: text for name, text in files.items()}, parents=True, below=place)
        seen = look(replace(untouched, number=2), recipe.under_invalid)
        if seen.ok:
            proof = replace(proof, variables_seen=False, reason="the library starts with invalid rules too")
        else:
            proof = replace(proof, as_a_whole=True)
    by_call = sound and not recipe.as_a_whole
    for number, spared in enumerate((0, SPARED_BYTES) if by_call else (), start=2):
        invalid = recipe.invalid(spared)
        # Of what the first launch called: a further one that shows nothing proves nothing.
        called = {slot_of(e.cell) for e in plain.estimates}
        wanted = {slot for slot in called if slot[2] >= spared and recipe.covers(slot)}
        if not invalid or (spared and not wanted):
            break
        write_files({place / name: text for name, text in invalid.items()}, parents=True, below=place)
        seen = look(replace(untouched, number=number), recipe.under_invalid)
        refused = _refused(seen) - _refused(plain)
        proof = replace(
            proof,
            rows=len(wanted),
            rows_reached=len(wanted & refused),
            strays=len(refused - wanted),
            reason=_words(wanted, refused) if seen.estimates else seen.reason,
            unseen=not seen.estimates,
        )
        if seen.estimates:
            break
    document = json.dumps({**asdict(proof), "holds": proof.holds}, indent=1)
    kept_in = into or directory
    write_files({kept_in / PROOF_FILE: f"{document}\n"}, below=kept_in)
    return proof


def _others(
    proof: Proof, look: _Look, place: Path, files: Trial, recipe: Recipe, source: Provenance
) -> Proof:
    """The proof with what becomes of all other parameters, on all ranks, after the launch that saw the files.

    What the setting itself changes, such as what a component derives from another value, changes in a launch
    of it as it was measured too; what each launch has of its own, such as the number of the job, differs in
    all three.
    """

    def as_measured(rendering: Rendering) -> Rendering:
        env, where = {**dict(source.both_sides), **dict(source.env)}, dict(source.placement)
        expect = replace(rendering.expect, env={}, cvars={})
        return Rendering(env, where.get("map_by", ""), where.get("bind_to", ""), expect=expect)

    untouched, measured = replace(files, number=4), replace(files, number=5)
    if not (seen := look(untouched, lambda rendering: rendering)).ok:
        return replace(proof, unseen=True, reason=f"a launch without the files: {seen.reason}")
    before, after = parameters(place, untouched), parameters(place, files)
    differ = {name for name in before.keys() & after.keys() if before[name] != after[name]}
    if differ := differ - {*recipe.variables, *NEVER_SET}:
        if not (seen := look(measured, as_measured)).ok:
            return replace(proof, unseen=True, reason=f"a launch without the files: {seen.reason}")
        meant = parameters(place, measured)
        differ = {name for name in differ if meant.get(name) == before[name]}
    if not differ:
        return proof
    name = min(differ)
    words = f"the files change {name} too, from {before[name]!r} to {after[name]!r}"
    return replace(proof, variables_seen=False, reason=f"{words} ({len(differ)} such parameters)")


def refuted(directory: Path) -> bool:
    """Whether files in a directory were checked and did not do what they say.

    Raises:
        UserError: the file there is no such outcome.
    """
    path = directory / PROOF_FILE
    if not path.exists():
        return False
    text = user_text(path, raised=UserError)
    hint = "remove it: the same campaign checks its files again as it ends"
    try:
        found = parsed(text, str(path), UserError, hint)
        return not (found["holds"] or found.get("unseen"))
    except UserError:
        raise
    except (LookupError, TypeError, AttributeError) as exc:
        raise UserError(f"{path} is no outcome of a check: {type(exc).__name__}: {exc}", hint) from exc


def _refused(observation: Observation) -> set[Slot]:
    return {slot_of(e.cell) for e in observation.estimates if e.status is not Status.OK}


def _words(wanted: set[Slot], refused: set[Slot]) -> str:
    """Differences from what was exported; empty: none."""
    if not refused and wanted:
        why = "the file is not read, or a forced algorithm or a component above comes first: lint says which"
        return f"none of {len(wanted)} measured sizes with a rule reaches it ({why})"
    parts = []
    for slots, words in ((wanted - refused, "does not reach its rule"), (refused - wanted, "reaches a rule")):
        if slots:
            collective, comm_size, size = min(slots)
            parts += [f"{collective} of {size} bytes on {comm_size} ranks {words} ({len(slots)} such sizes)"]
    return "; ".join(parts)
