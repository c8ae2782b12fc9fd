"""Check on fresh launches that the exported files have the stated effect (the end of step 12).

Two launches apply the exported files with the line that is printed for users, and set nothing else but the
variables with which both sides were measured. In the first launch each rank compares the values in effect
(its environment, Open MPI's control variables, UCX's configuration) with the exported ones; all other control
variables are compared with those of an untouched launch. In the second launch every row of the rules names an
algorithm that does not exist: MPI then refuses exactly those calls that reach a row, size by size. Every call
is made once and nothing is timed, so that a busy machine changes nothing.

A component above the one that reads the rules may set itself up by small calls on the same communicator and
fail when these are refused, as ``coll_han`` of Open MPI 5.0 does. Where the second launch fails, a third one
spares small calls; where that one fails too, nothing is known of the rules.
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
from autotune.resources.secret import with_secrets
from autotune.space import Space
from autotune.stacks.knobs.openmpi import NEVER_SET
from autotune.stacks.ports import Rendering
from autotune.structure import parsed

Amended = Callable[[Rendering], Rendering]  # Changes a rendering.
_Launch = Callable[[Trial, Amended], Observation]  # A launch of a trial under a changed rendering.

PROOF_FILE = "proof.json"  # Name of the file with the result, beside the exported files.

SPARED_BYTES = 1024
"""Messages below this size are spared: a library sets itself up with a few numbers of each rank."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Result of the launches under the exported files."""

    variables: int  # Number of parameters and variables that each rank must see.
    variables_seen: bool  # Whether each rank saw all of them.
    rows: int  # Number of measured sizes that should reach a row of the rules.
    rows_reached: int  # Number of these that did.
    strays: int  # Number of measured sizes that reached a row although the stack should have decided.
    reason: str = ""
    """Difference from the export, or why it could not be observed, in words; otherwise empty."""
    unseen: bool = False
    """Whether a launch that should have shown it failed: the files are neither proved nor refuted."""
    as_a_whole: bool = False
    """Whether the library was seen to read the rules because it refused invalid ones."""

    @property
    def holds(self) -> bool:
        """Return whether the files have the stated effect."""
        return self.variables_seen and self.rows_reached == self.rows and not (self.strays or self.unseen)

    @property
    def refutes(self) -> bool:
        """Return whether the files lack the stated effect."""
        return not (self.holds or self.unseen)

    def __str__(self) -> str:
        if self.holds:
            rows = f", {self.rows} of {self.rows} measured sizes with a rule reach it" if self.rows else ""
            rows += ", and the library reads the rules: it refuses an invalid one" if self.as_a_whole else ""
            return f"proved on fresh launches: {self.variables} parameters seen by every rank{rows}"
        return f"{'could not be checked' if self.unseen else 'NOT PROVED'}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the files of one format are applied by a fresh launch, and how their rules are made invalid."""

    variables: Collection[str]  # Parameters and variables that the files set, by the library's names.
    under: Callable[[Rendering], Rendering]
    """Changes an untouched launch to one that sees the files and expects the values in them."""
    invalid: Callable[[int], Mapping[str, str]]
    """Returns the files with algorithms that do not exist for messages of at least this many bytes; empty
    where there are no rules."""
    under_invalid: Callable[[Rendering], Rendering]
    """Changes an untouched launch to one that sees the invalid files."""
    covers: Callable[[Slot], bool]  # Returns whether a call reaches a row that names an algorithm.
    as_a_whole: bool = False  # Whether the library refuses invalid files as it starts, not call by call.


@runtime_checkable
class Checkable(Protocol):
    """A format whose files can be checked on fresh launches."""

    def recipe(self, recommendation: Recommendation, directory: Path, invalid: Path) -> Recipe | None:
        """Return how the files are checked, or None where they cannot be applied.

        Args:
            recommendation: The exported recommendation.
            directory: Where the files are.
            invalid: Directory for the files of the second launch.
        """


def check_export(
    formats: Sequence[str],
    recommendation: Recommendation,
    directory: Path,
    observers: Observers,
    measurement: Measurement,
    space: Space,
    into: Path | None = None,
) -> Proof | None:
    """Launch under the files in a directory, and write the result beside them.

    The first of the formats that can be checked is checked.

    Args:
        formats: Names of the exported formats.
        recommendation: The exported recommendation.
        directory: Where the files are.
        observers: Makes the observer of a measurement.
        measurement: How the recommendation was measured.
        space: Its search space.
        into: Directory for the result in place of ``directory``.

    Returns:
        The result; None where no format can be checked, or nothing is set.

    Raises:
        StackError: Nothing can be launched at all.
        StorageError: The disk is full or read-only.
    """
    place = (into or directory) / "proof"
    checkable = (
        format_exporter
        for format_exporter in map(exporter, formats)
        if isinstance(format_exporter, Checkable)
    )
    recipes = (format_exporter.recipe(recommendation, directory, place) for format_exporter in checkable)
    recipe = next((candidate for candidate in recipes if candidate is not None), None)
    if recipe is None or not recipe.variables:
        return None
    probe = measurement.probe
    # Patterns obey no rules and are not called; a launch without any call would observe nothing.
    extra = () if recommendation.rules or "barrier" in probe.collectives else ("barrier",)
    probe = replace(probe, reach=True, collectives=(*probe.collectives, *extra))

    def launch(trial: Trial, amended: Amended) -> Observation:
        return observers(replace(measurement, probe=probe, amended=amended), space, place).observe(trial)

    untouched = Trial(1, Phase.VERIFY, space.default, Subject.UNTOUCHED)
    plain = launch(untouched, recipe.under)
    unseen = plain.status not in (Status.OK, Status.NOT_APPLIED)
    proof = Proof(len(recipe.variables), plain.ok, 0, 0, 0, plain.reason, unseen)
    if plain.ok:
        proof = _check_other_parameters(proof, launch, place, untouched, recipe, recommendation.provenance)
    sound = plain.ok and not (proof.reason or proof.unseen)
    if sound and recipe.as_a_whole and (files := recipe.invalid(0)):
        write_files({place / name: text for name, text in files.items()}, parents=True, below=place)
        observation = launch(replace(untouched, number=2), recipe.under_invalid)
        if observation.ok:
            proof = replace(proof, variables_seen=False, reason="the library starts with invalid rules too")
        else:
            proof = replace(proof, as_a_whole=True)
    by_call = sound and not recipe.as_a_whole
    for number, spared in enumerate((0, SPARED_BYTES) if by_call else (), start=2):
        invalid = recipe.invalid(spared)
        # Only calls of the first launch count: one that this launch alone makes proves nothing.
        called = {slot_of(e.cell) for e in plain.estimates}
        expected = {slot for slot in called if slot[2] >= spared and recipe.covers(slot)}
        if not invalid or (spared and not expected):
            break
        write_files({place / name: text for name, text in invalid.items()}, parents=True, below=place)
        observation = launch(replace(untouched, number=number), recipe.under_invalid)
        refused = _refused(observation) - _refused(plain)
        proof = replace(
            proof,
            rows=len(expected),
            rows_reached=len(expected & refused),
            strays=len(refused - expected),
            reason=_deviations(expected, refused) if observation.estimates else observation.reason,
            unseen=not observation.estimates,
        )
        if observation.estimates:
            break
    document = json.dumps({**asdict(proof), "holds": proof.holds}, indent=1)
    destination = into or directory
    write_files({destination / PROOF_FILE: f"{document}\n"}, below=destination)
    return proof


def _check_other_parameters(
    proof: Proof, launch: _Launch, place: Path, files: Trial, recipe: Recipe, provenance: Provenance
) -> Proof:
    """Return the proof after a comparison of all other parameters with those of an untouched launch.

    Parameters that the setting itself changes, such as one that a component derives from another value,
    change in a launch of it as it was measured too. Parameters that every launch has of its own, such as the
    number of the job, differ in all three launches.
    """

    def as_measured(rendering: Rendering) -> Rendering:
        common = with_secrets(dict(provenance.both_sides), rendering.env)
        env, placement = {**common, **dict(provenance.env)}, dict(provenance.placement)
        expect = replace(rendering.expect, env={}, cvars={})
        return Rendering(env, placement.get("map_by", ""), placement.get("bind_to", ""), expect=expect)

    untouched, measured = replace(files, number=4), replace(files, number=5)
    if not (observation := launch(untouched, lambda rendering: rendering)).ok:
        return replace(proof, unseen=True, reason=f"a launch without the files: {observation.reason}")
    untouched_values, exported_values = parameters(place, untouched), parameters(place, files)
    changed = {
        name
        for name in untouched_values.keys() & exported_values.keys()
        if untouched_values[name] != exported_values[name]
    }
    if changed := changed - {*recipe.variables, *NEVER_SET}:
        if not (observation := launch(measured, as_measured)).ok:
            return replace(proof, unseen=True, reason=f"a launch without the files: {observation.reason}")
        measured_values = parameters(place, measured)
        changed = {name for name in changed if measured_values.get(name) == untouched_values[name]}
    if not changed:
        return proof
    name = min(changed)
    change = f"the files change {name} too, from {untouched_values[name]!r} to {exported_values[name]!r}"
    return replace(proof, variables_seen=False, reason=f"{change} ({len(changed)} such parameters)")


def refuted(directory: Path) -> bool:
    """Return whether files in a directory were checked and lack the stated effect.

    Raises:
        UserError: The file there is no result of a check.
    """
    path = directory / PROOF_FILE
    if not path.exists():
        return False
    text = user_text(path, raised=UserError)
    hint = "remove it: the same campaign checks its files again as it ends"
    try:
        document = parsed(text, str(path), UserError, hint)
        return not (document["holds"] or document.get("unseen"))
    except UserError:
        raise
    except (LookupError, TypeError, AttributeError) as exc:
        raise UserError(f"{path} is no outcome of a check: {type(exc).__name__}: {exc}", hint) from exc


def _refused(observation: Observation) -> set[Slot]:
    return {slot_of(e.cell) for e in observation.estimates if e.status is not Status.OK}


def _deviations(expected: set[Slot], refused: set[Slot]) -> str:
    """Return the differences from the exported rules in words; empty where there are none."""
    if not refused and expected:
        causes = (
            "the file is not read, or a forced algorithm or a component above comes first: lint says which"
        )
        return f"none of {len(expected)} measured sizes with a rule reaches it ({causes})"
    parts = []
    for slots, words in (
        (expected - refused, "does not reach its rule"),
        (refused - expected, "reaches a rule"),
    ):
        if slots:
            collective, comm_size, size = min(slots)
            parts += [f"{collective} of {size} bytes on {comm_size} ranks {words} ({len(slots)} such sizes)"]
    return "; ".join(parts)
