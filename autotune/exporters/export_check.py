"""Check on fresh launches that the exported files have the stated effect (the end of step 12).

Two launches apply the exported files with the command line that is printed for users. They set nothing else
except the variables with which the defaults and the setting were both measured. In the first launch each rank
compares the values in effect (its environment, Open MPI's control variables, UCX's configuration) with the
exported values; all other control variables are compared with those of an untouched launch (with the MPI's
own defaults). In the second launch every row of the rules names an algorithm that does not exist. The MPI
then refuses exactly those calls to which a row applies, and this shows for each size whether the call reaches
a row. Every call is made once and nothing is timed, so the check also works on a busy machine.

A component of higher priority than the component that reads the rules may make small calls on the same
communicator when it starts, and may fail if these calls are refused, as ``coll_han`` of Open MPI 5.0 does. If
the second launch fails, a third launch therefore leaves the rules for small messages valid; if this launch
fails too, the rules remain unchecked.
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

Amended = Callable[[Rendering], Rendering]  # Changes how a launch is rendered (its variables and options).
_Launch = Callable[[Trial, Amended], Observation]  # Launches a trial with a changed rendering.

PROOF_FILE = "proof.json"  # Name of the file with the result of the check, next to the exported files.

SPARED_BYTES = 1024
"""Message size in bytes below which rules stay valid in the third launch. The calls that a component makes
when it starts have smaller messages."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Holds the result of the launches with the exported files."""

    variables: int  # Number of parameters and variables that each rank must see.
    variables_seen: bool  # Whether each rank saw all of these parameters and variables.
    rows: int  # Number of measured sizes that should reach a row of the rules.
    rows_reached: int  # Number of those sizes that did reach a row.
    strays: int  # Number of measured sizes that reached a row although the MPI should have decided.
    reason: str = ""
    """Text on how the effect differs from the export, or why it could not be observed; otherwise empty."""
    unseen: bool = False
    """Whether a launch that should have shown the effect failed, so that the files are neither proved nor
    refuted."""
    as_a_whole: bool = False
    """Whether the library is known to read the rules because it refused invalid rules when it started."""

    @property
    def holds(self) -> bool:
        """Return whether the files have the stated effect."""
        return self.variables_seen and self.rows_reached == self.rows and not (self.strays or self.unseen)

    @property
    def refutes(self) -> bool:
        """Return whether the check showed that the files do not have the stated effect."""
        return not (self.holds or self.unseen)

    def __str__(self) -> str:
        if self.holds:
            rows = f", {self.rows} of {self.rows} measured sizes with a rule reach it" if self.rows else ""
            rows += ", and the library reads the rules: it refuses an invalid one" if self.as_a_whole else ""
            return (
                f"files in effect on fresh launches: every rank sees their {self.variables} "
                f"parameter{'s' * (self.variables != 1)}{rows}; "
                "this says nothing of speed"
            )
        return f"{'could not be checked' if self.unseen else 'NOT PROVED'}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Recipe:
    """Says how a fresh launch applies the files of one format, and how their rules are made invalid."""

    variables: Collection[str]  # Parameters and variables that the files set, by the library's names.
    under: Callable[[Rendering], Rendering]
    """Changes a launch with the MPI's own defaults so that it uses the files and expects their values."""
    invalid: Callable[[int], Mapping[str, str]]
    """Returns the files with algorithms that do not exist for messages of at least this many bytes; empty if
    there are no rules."""
    under_invalid: Callable[[Rendering], Rendering]
    """Changes a launch with the MPI's own defaults so that it uses the invalid files."""
    covers: Callable[[Slot], bool]  # Returns whether a call reaches a row that names an algorithm.
    as_a_whole: bool = False  # Whether the library refuses invalid files when it starts, not call by call.


@runtime_checkable
class Checkable(Protocol):
    """Declares what a format needs so that its files can be checked on fresh launches."""

    def recipe(self, recommendation: Recommendation, directory: Path, invalid: Path) -> Recipe | None:
        """Return how the files are checked; None if no launch can apply them.

        Args:
            recommendation: The exported recommendation.
            directory: Directory of the exported files.
            invalid: Directory for the files of the second launch, which are invalid.
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
    """Check the exported files on fresh launches, and write the result next to the files (or ``into``).

    Only the first format that can be checked is checked; the launches make the calls that ``measurement``
    describes. Return None if no format can be checked, or the files set nothing.

    Raises:
        StackError: Nothing can be launched at all.
        StorageError: The disk is full or read-only.
    """
    place = (into or directory) / "proof"
    checkable = (found for found in map(exporter, formats) if isinstance(found, Checkable))
    recipes = (found.recipe(recommendation, directory, place) for found in checkable)
    recipe = next((candidate for candidate in recipes if candidate is not None), None)
    if recipe is None or not recipe.variables:
        return None
    probe = measurement.probe
    # Communication patterns obey no rules and are not called. Without rules, a barrier is called as well,
    # because a launch without any call would observe nothing.
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
        # A call proves something only if the first launch, whose rules are valid, made it too.
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
    """Return the proof, after checking that the files change no other parameters than the setting does.

    The parameters that the files do not set are compared with those of an untouched launch. Such a parameter
    may differ if it also differs in a launch of the setting as it was measured. Then either the setting
    changes the parameter (a component derives its value from another parameter), or it differs in every
    launch, as the job's number does.
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
    shared = untouched_values.keys() & exported_values.keys()
    changed = {name for name in shared if untouched_values[name] != exported_values[name]}
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
    """Return whether the files in a directory were checked and do not have the stated effect.

    Raises:
        UserError: The directory's ``proof.json`` is not the result of a check.
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
    if not refused and expected:
        causes = (
            "the file is not read, or a forced algorithm or a component above comes first: lint says which"
        )
        return f"none of {len(expected)} measured sizes with a rule reaches it ({causes})"
    deviating = ((expected - refused, "does not reach its rule"), (refused - expected, "reaches a rule"))
    return "; ".join(
        f"{collective} of {size} bytes on {comm_size} ranks {words} ({len(slots)} such sizes)"
        for slots, words in deviating
        for collective, comm_size, size in sorted(slots)[:1]
    )
