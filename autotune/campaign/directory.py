"""A campaign's directory, read: what its verbs and its report know (steps 8 and 10 of the flow).

Everything comes from the journal, so it can be read while the campaign runs, after it was killed, and on a
machine without any MPI.
"""

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from autotune.campaign.strategy import Plan, Strategy
from autotune.errors import JournalError, UserError
from autotune.history.events import history_of
from autotune.history.journal import FILE, read_events
from autotune.history.objectives import Envelope, Objective, envelope
from autotune.history.trial import History, Phase
from autotune.recommend.front import Provenance, Recommendation, recommend
from autotune.screening import Effects, ScreeningResult
from autotune.space import Space
from autotune.space.loader import space_of
from autotune.stacks import dialect
from autotune.verification.paired_test import SequentialDesign
from autotune.verification.rounds import Verdict, Verifier


@dataclass(frozen=True, slots=True)
class Record:
    """One campaign as its journal tells it."""

    directory: Path
    """Where it lives."""
    name: str
    """Of its scenario."""
    scenario: Mapping[str, Any]
    """As it was asked for, plain."""
    space: Space
    """What could be turned."""
    objectives: tuple[Objective, ...]
    """What was judged."""
    history: History
    """All observations."""
    site: Mapping[str, Any]
    """``description``, ``findings``, ``fixed``, ``stamp``, ``ranks``, ``nodes`` of the place."""
    state: str
    """``running``, ``interrupted``, ``complete`` or ``failed``."""
    reason: str
    """In words, where the state needs some."""

    @property
    def phase(self) -> str:
        """Of the last trial."""
        return self.history.observations[-1].trial.phase.value if len(self.history) else Phase.BASELINE.value

    @property
    def trials(self) -> Mapping[str, int]:
        """Number of trials by status."""
        return dict(Counter(o.status.value for o in self.history))

    @property
    def baseline(self) -> Envelope:
        """The stack's own defaults."""
        return envelope(self.space, self.history.of(Phase.BASELINE))

    @property
    def screening(self) -> tuple[tuple[Effects, ...], ScreeningResult] | None:
        """Effects and decisions of the screening; None where there was none, or it is not complete."""
        if not len(self.history.of(Phase.SCREENING)):
            return None
        asked = self.scenario["screening"]
        plan = Plan(
            # It was run, so there was room for it; the budget may have been changed since.
            budget_launches=sys.maxsize,
            foldover=asked["foldover"],
            replicates=asked["replicates"],
            centre_points=asked["centre_points"],
            seed=self.scenario["seed"],
        )
        return Strategy(self.space, self.objectives, plan).screening(self.history)

    @property
    def verdict(self) -> Verdict | None:
        """What the verification says; None where none was made or is wanted."""
        if not len(self.history.of(Phase.VERIFY)):
            return None
        judge = verifier_of(self.scenario, self.space, self.objectives, "")
        return judge.verdict(self.history) if judge else None

    @property
    def recommendation(self) -> Recommendation | None:
        """What the campaign recommends so far; None before any setting was measured completely.

        Before the verification is finished it is what was found, after it what held.
        """
        verdict = self.verdict
        if verdict is not None:
            found: Recommendation | None = verdict.recommendation
        else:
            found = recommend(self.objectives, self.space, self.history, dialect(self.space.stack).one_row)
        if found is None:
            return None
        return found.with_provenance(self._provenance(found, verdict.text if verdict else "UNVERIFIED"))

    def _provenance(self, found: Recommendation, verified: str) -> Provenance:
        fixed, coll = self.site.get("fixed", {}), self.site.get("coll", ())
        env, placement = dialect(self.space.stack).environment(self.space, found.point, fixed, coll)
        journal = self.directory / FILE
        return Provenance(
            campaign=self.name,
            date=date.fromtimestamp(journal.stat().st_mtime).isoformat(),
            stack=str(self.site.get("description", "")),
            nodes=int(self.site.get("nodes", 1)),
            ranks=int(self.site.get("ranks", 0)),
            stamp=str(self.site.get("stamp", "")),
            verified=verified,
            env=tuple(env.items()),
            placement=tuple(placement.items()),
        )


def read_record(directory: Path) -> Record:
    """The campaign in a directory.

    Raises:
        UserError: there is no campaign.
        JournalError: its journal is damaged or of a newer format.
    """
    events = read_events(directory)
    begun = [e for e in events if e["event"] == "campaign"]
    if not begun:
        raise UserError(f"{directory} holds no campaign", f"expected a directory with a {FILE}")
    if len(begun) > 1:
        raise JournalError(f"{directory / FILE} describes {len(begun)} campaigns")
    about = begun[0]
    state, reason = _state(directory, events)
    return Record(
        directory=directory,
        name=about["name"],
        scenario=about["scenario"],
        space=space_of(about["space"]),
        objectives=tuple(objective_of(o) for o in about["objectives"]),
        history=history_of(events),
        site=about["site"],
        state=state,
        reason=reason,
    )


def verifier_of(
    scenario: Mapping[str, Any], space: Space, objectives: tuple[Objective, ...], stamp: str
) -> Verifier | None:
    """What verifies a campaign; None where nothing does: not wanted, or a replayed table.

    Args:
        scenario: As it was asked for, plain.
        space: What could be turned.
        objectives: What was judged.
        stamp: Of the site.

    Raises:
        ScenarioError: an error rate or a loss out of its range.
    """
    wanted = scenario["verify"]
    if not wanted["enabled"] or not wanted["launches"] or stamp.startswith("REPLAYED"):
        return None
    design = SequentialDesign.of(wanted["launches"], wanted["error_rate"], wanted["max_loss"])
    return Verifier(space, objectives, design, scenario["seed"], dialect(space.stack).one_row)


def objective_of(document: Mapping[str, Any]) -> Objective:
    """The objective in the journal's description of a campaign."""
    weights = {(c, n, m): w for c, n, m, w in document.get("weights", ())}
    return Objective(
        document["name"], document["min_bytes"], document["max_bytes"], weights, document.get("goal", "")
    )


def objective_document(objective: Objective) -> dict[str, Any]:
    """An objective as JSON values."""
    return {
        "name": objective.name,
        "min_bytes": objective.min_bytes,
        "max_bytes": objective.max_bytes,
        "goal": objective.goal,
        "weights": [[*slot, weight] for slot, weight in objective.weights.items()],
    }


def _state(directory: Path, events: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """What the journal's last word is, and where it has none, whether anybody is still writing."""
    last = events[-1]
    if last["event"] == "ended":
        return str(last["state"]), str(last.get("reason", ""))
    started = [e for e in events if e["event"] == "started"]
    if started and _alive(int(started[-1]["pid"]), str(started[-1]["host"])):
        return "running", ""
    return "interrupted", "it was ended without a word; the same command continues it"


def _alive(pid: int, host: str) -> bool:
    """Whether the writer still lives; of another host nothing is known, so it is believed."""
    if host != os.uname().nodename:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
