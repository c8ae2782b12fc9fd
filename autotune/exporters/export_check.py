"""Whether the exported files do on a fresh launch what they say (the end of step 12).

Two launches see nothing but the exported parameter file. In the first each rank compares the variables that
it has with those that were exported. In the second every row of the rules names an algorithm that does not
exist: MPI then refuses exactly those calls that reach a row, size by size.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from autotune.campaign.experiment import Experiment
from autotune.exporters.openmpi import CONF_FILE, OpenMpiMca
from autotune.exporters.settings import RULES_FILE, settings
from autotune.history.objectives import Slot, slot_of
from autotune.history.trial import Observation, Phase, Status, Subject, Trial
from autotune.recommend.front import Recommendation
from autotune.space import Space
from autotune.stacks import coll_tuned
from autotune.stacks.ports import Renderer, Rendering

NO_ALGORITHM = 99
"""An id that no collective has in any version."""

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


@dataclass(frozen=True)
class _Exported:
    """A stack whose launches see an exported parameter file and nothing else."""

    stack: Renderer
    conf: Path
    mca: Mapping[str, str]
    other: Mapping[str, str]

    def render(self, space: Space, trial: Trial, collectives: Sequence[str]) -> Rendering:
        """The file's path as the only variable; everything that the file sets as the expectation."""
        expect = self.stack.render(space, trial, collectives).expect
        return Rendering(
            env={"OMPI_MCA_mca_base_param_files": str(self.conf)},
            expect=replace(expect, env=dict(self.other), cvars=dict(self.mca)),
        )


def prove(experiment: Experiment, recommendation: Recommendation, directory: Path) -> Proof:
    """Launch twice under the files that lie in a directory, and leave the outcome beside them.

    Args:
        experiment: How the campaign's launches are made.
        recommendation: What was exported.
        directory: Where ``openmpi_mca`` was exported to.

    Raises:
        StackError: nothing can be launched at all.
    """
    found = settings(recommendation, directory)
    place = directory / "proof"
    sound = _Exported(experiment.stack, (directory / CONF_FILE).absolute(), found.mca, found.other)
    brief = replace(experiment.probe, budget_s=min(experiment.probe.budget_s, 1.0))
    launched = replace(experiment, stack=sound, probe=brief, directory=place)
    untouched = Trial(1, Phase.VERIFY, experiment.space.default, Subject.UNTOUCHED)
    plain = launched.observe(untouched)
    proof = Proof(len(found.mca) + len(found.other), plain.ok, 0, 0, 0, plain.reason)
    if plain.ok and found.rules:
        files = OpenMpiMca().export(recommendation, place)
        (place / CONF_FILE).write_text(files[CONF_FILE])
        (place / RULES_FILE).write_text(poisoned(files[RULES_FILE]))
        refusing = settings(recommendation, place)
        stack = _Exported(experiment.stack, (place / CONF_FILE).absolute(), refusing.mca, refusing.other)
        refusing_launch = replace(launched, stack=stack, probe=replace(brief, reach=True))
        seen = refusing_launch.observe(replace(untouched, number=2))
        tables = coll_tuned.table(recommendation.rules)
        # Of what the first launch measured: a second one that shows nothing proves nothing.
        wanted = {s for s in map(slot_of, (e.cell for e in plain.estimates)) if _covered(tables, s)}
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


def poisoned(rules: str) -> str:
    """A classic rules file in which every algorithm but the stack's own is one that does not exist."""
    return re.sub(r"(?m)^(\d+) [1-9]\d* (\d+ \d+)", rf"\1 {NO_ALGORITHM} \2", rules)


def _covered(tables: Mapping[str, Mapping[int, tuple[coll_tuned.Row, ...]]], slot: Slot) -> bool:
    """Whether a call reaches a row that names an algorithm."""
    collective, comm_size, size = slot
    by_size = tables.get(collective, {})
    starts = [n for n in by_size if n <= comm_size]
    if not starts:
        return False
    threshold = coll_tuned.threshold_bytes(collective, size, comm_size)
    rows = [row for row in by_size[max(starts)] if row.threshold_bytes <= threshold]
    return bool(rows[-1].algorithm)


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
