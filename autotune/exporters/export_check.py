"""Whether the exported files do on a fresh launch what they say (the end of step 12).

Two launches see the exported files in the way that their format says, and nothing else but what both sides
were measured with. In the first each rank compares what it has in force (its environment, Open MPI's
control variables, UCX's configuration) with what was exported. In the second every row of the rules names
an algorithm that does not exist: MPI then refuses exactly those calls that reach a row, size by size. Both
launches make each call once; nothing is timed, so that a busy machine changes nothing.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from autotune.campaign.observing import Measurement, Observers
from autotune.exporters import exporter
from autotune.history.objectives import Slot, slot_of
from autotune.history.trial import Observation, Phase, Status, Subject, Trial
from autotune.recommend.front import Recommendation
from autotune.space import Space
from autotune.stacks.ports import Rendering

PROOF_FILE = "proof.json"
"""Name of the outcome beside the exported files."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What two launches under the exported files showed."""

    variables: int
    """Parameters and variables that each rank must see."""
    variables_seen: bool
    """Whether each rank saw them all."""
    rows: int
    """Measured sizes that should reach a row of the rules."""
    rows_reached: int
    """Of them those that did."""
    strays: int
    """Measured sizes that reached a row although the stack should have decided."""
    reason: str = ""
    """In words, where something was not as exported."""

    @property
    def holds(self) -> bool:
        """Whether the files do what they say."""
        return self.variables_seen and self.rows_reached == self.rows and not self.strays

    def __str__(self) -> str:
        if self.holds:
            rows = f", {self.rows} of {self.rows} measured sizes with a rule reach it" if self.rows else ""
            return f"proved on fresh launches: {self.variables} parameters seen by every rank{rows}"
        return f"NOT PROVED: {self.reason}"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the files of one format are put into force, and out of it, by two fresh launches."""

    variables: int
    """Parameters and variables that the files set."""
    under: Callable[[Rendering], Rendering]
    """An untouched launch that sees the files, and must find what they set."""
    spoilt: Mapping[str, str]
    """The files again, with algorithms that do not exist; empty: there are no rules to be reached."""
    under_spoilt: Callable[[Rendering], Rendering]
    """An untouched launch that sees the spoilt files."""
    covers: Callable[[Slot], bool]
    """Whether a call reaches a row that names an algorithm."""


@runtime_checkable
class Checkable(Protocol):
    """A format whose files can be checked on fresh launches."""

    def recipe(self, recommendation: Recommendation, directory: Path, spoilt: Path) -> Recipe | None:
        """How the files in a directory are checked; those of the second launch will lie in ``spoilt``.

        None: they cannot be put into force where they lie.
        """
        ...


def check_export(
    formats: Sequence[str],
    recommendation: Recommendation,
    directory: Path,
    observers: Observers,
    measurement: Measurement,
    space: Space,
) -> Proof | None:
    """Launch twice under the files that lie in a directory, and leave the outcome beside them.

    Args:
        formats: What was exported; the first one that can be checked is.
        recommendation: What was exported.
        directory: Where to.
        observers: Of the campaign's site.
        measurement: Of the campaign's launches.
        space: Of the campaign.

    Returns:
        What was found; None where no format can be checked, or nothing is set.

    Raises:
        StackError: nothing can be launched at all.
    """
    place = directory / "proof"
    checkable = (made for made in map(exporter, formats) if isinstance(made, Checkable))
    recipes = (made.recipe(recommendation, directory, place) for made in checkable)
    recipe = next((found for found in recipes if found is not None), None)
    if recipe is None or not recipe.variables:
        return None
    probe = replace(measurement.probe, reach=True)
    sound = replace(measurement, probe=probe, amended=recipe.under)
    untouched = Trial(1, Phase.VERIFY, space.default, Subject.UNTOUCHED)
    plain = observers(sound, space, place).observe(untouched)
    proof = Proof(recipe.variables, plain.ok, 0, 0, 0, plain.reason)
    if plain.ok and recipe.spoilt:
        place.mkdir(exist_ok=True)
        for name, text in recipe.spoilt.items():
            (place / name).write_text(text)
        refusing = replace(sound, amended=recipe.under_spoilt)
        seen = observers(refusing, space, place).observe(replace(untouched, number=2))
        # Of what the first launch called: a second one that shows nothing proves nothing.
        wanted = {slot for e in plain.estimates if recipe.covers(slot := slot_of(e.cell))}
        refused = _refused(seen) - _refused(plain)
        proof = replace(
            proof,
            rows=len(wanted),
            rows_reached=len(wanted & refused),
            strays=len(refused - wanted),
            reason=_words(wanted, refused, seen.reason),
        )
    (directory / PROOF_FILE).write_text(json.dumps({**asdict(proof), "holds": proof.holds}, indent=1) + "\n")
    return proof


def refuted(directory: Path) -> bool:
    """Whether files in a directory were checked and did not do what they say."""
    path = directory / PROOF_FILE
    return path.exists() and not json.loads(path.read_text())["holds"]


def _refused(observation: Observation) -> set[Slot]:
    return {slot_of(e.cell) for e in observation.estimates if e.status is not Status.OK}


def _words(wanted: set[Slot], refused: set[Slot], reason: str) -> str:
    """What is not as exported; empty where all is."""
    if not refused and wanted:
        why = reason or "the file is not read"
        return f"none of {len(wanted)} measured sizes with a rule reaches it ({why})"
    parts = []
    for slots, words in ((wanted - refused, "does not reach its rule"), (refused - wanted, "reaches a rule")):
        if slots:
            collective, comm_size, size = min(slots)
            parts.append(
                f"{collective} of {size} bytes on {comm_size} ranks {words} ({len(slots)} such sizes)"
            )
    return "; ".join(parts)
