"""A campaign's description: the journal's event ``campaign`` as a value, and back (step 8 of the flow).

The keys of the event are those that the first version wrote.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from autotune.errors import AutotuneError, JournalError
from autotune.history.objectives import Objective
from autotune.scenario import Scenario, defaults, restored
from autotune.screening.discovery import DiscoveryResult
from autotune.space import Point, Space
from autotune.space.joined import joined
from autotune.space.loader import space_document, space_of
from autotune.structure import Document, plain


class SiteKind(StrEnum):
    """The source of launches' results, as stamps begin."""

    REAL = ""  # An MPI, or the user's own program.
    SIMULATED = "SIMULATED"  # A model of a cluster.
    REPLAYED = "REPLAYED"  # A recorded table.


@dataclass(frozen=True, slots=True)
class Stamp:
    """Mark on everything that comes from a place; empty where something real was measured."""

    kind: SiteKind = SiteKind.REAL  # What answered the launches.
    detail: str = ""  # Which model or table.

    @classmethod
    def of(cls, text: str) -> "Stamp":
        """The stamp that reads like this."""
        kind, _, detail = text.partition(" ")
        return cls(SiteKind(kind), detail.removeprefix("(").removesuffix(")"))

    def __bool__(self) -> bool:
        return self.kind is not SiteKind.REAL

    def __str__(self) -> str:
        return f"{self.kind} ({self.detail})" if self.detail else self.kind.value


@dataclass(frozen=True, slots=True)
class SiteFacts:
    """Facts kept of the place where a campaign's launches are made."""

    description: str = ""  # MPI and UCX versions in one line.
    findings: tuple[tuple[str, str], ...] = ()  # (what, found) pairs about the machine.
    fixed: Mapping[str, str] = field(default_factory=dict)  # Environment of every launch, untouched too.
    coll: tuple[str, ...] = ()  # The collective components that are there; empty: not known.
    stamp: Stamp = Stamp()  # Whether something real was measured.
    launcher: Mapping[str, Any] = field(default_factory=dict)
    """The launcher's own configuration, so that it can be found again; empty: the default one."""
    ranks: int = 0  # Of a launch; 0: not known.
    nodes: int = 1  # Over which they are spread.
    at_once: bool = False  # Whether several launches can be alive at once, and take turns.


@dataclass(frozen=True, slots=True)
class Description:
    """One campaign, without what it has seen."""

    scenario: Scenario  # What was asked for.
    space: Space  # What can be turned.
    objectives: tuple[Objective, ...]  # What is judged.
    site: SiteFacts  # Where it is measured.
    knobs: Space | None = None  # With ``space=discover``: what the stack says can be turned, beside the space
    discovered: DiscoveryResult | None = None  # Of a complete discovery, which left ``space`` to search.
    suggested: tuple[Point, ...] = ()  # Points to search first.
    confirmed: tuple[Point, ...] = ()
    """Points to verify in any case: a discovery confirmed that they gain, and saw them lose at no size."""

    @property
    def discovering(self) -> bool:
        """Whether a discovery comes before the search, and is not complete."""
        return self.knobs is not None and self.discovered is None

    @property
    def heats(self) -> bool:
        """Whether launches of the verification are alive at once, and take turns."""
        scenario = self.scenario
        return scenario.verify.heats and self.site.at_once and scenario.probe.sync == "barrier"

    @property
    def whole(self) -> Space:
        """Everything that a launch of the campaign may set."""
        return joined(self.space, self.knobs) if self.knobs is not None else self.space

    @property
    def name(self) -> str:
        """Name of its scenario."""
        return self.scenario.name


LATER = (
    *(("budget", key) for key in ("total_launches", "total_seconds", "node_hours", "until")),
    ("cluster", "oversubscribe"),
    ("mpi", "stack"),
    ("verify", "margin"),
    ("verify", "other_loop"),
    ("verify", "also"),
    ("verify", "heats"),
    *(("objective", key) for key in ("message_rate", "overlap")),
    ("screening", "runs"),
    ("discover", "levels"),
    ("baseline", "every"),
    ("launch", "patience_s"),
    ("launch", "first_node"),
    ("campaign", "notify"),
)
"""Keys that earlier versions did not know: where they are as by default, a journal does not name them."""


def scenario_document(campaign: Description) -> dict[str, Any]:
    """Its scenario as the journal keeps it."""
    scenario = dict(plain(campaign.scenario))
    for section, key in LATER:
        if scenario[section][key] == defaults()[section][key]:
            scenario[section] = {name: value for name, value in scenario[section].items() if name != key}
    if not scenario["require"]:
        del scenario["require"]  # as above
    if campaign.knobs is None:
        del scenario["discover"]  # of no meaning there, and nothing that an earlier version wrote
    return scenario


def campaign_event(campaign: Description) -> dict[str, Any]:
    """A campaign's description as an event."""
    return {
        "event": "campaign",
        "name": campaign.name,
        "scenario": scenario_document(campaign),
        "space": space_document(campaign.space),
        **({} if campaign.knobs is None else {"knobs": space_document(campaign.knobs)}),
        "fingerprint": campaign.whole.fingerprint,
        "objectives": [
            {
                **{name: getattr(objective, name) for name in ("name", "min_bytes", "max_bytes", "goal")},
                "weights": [[*slot, weight] for slot, weight in objective.weights.items()],
            }
            for objective in campaign.objectives
        ],
        "site": _site_document(campaign.site),
    }


def _site_document(site: SiteFacts) -> dict[str, Any]:
    document = {**plain(site), "stamp": str(site.stamp)}
    if not site.at_once:
        del document["at_once"]  # as above
    return document


def campaign_of(event: Mapping[str, Any]) -> Description:
    """The description in an event.

    Raises:
        ScenarioError: a scenario of another version.
        JournalError: a site of another version, or a description that is damaged.
    """
    site = Document("the journal's site", JournalError, own=True, newer=True)
    try:
        return Description(
            restored(event["scenario"]),
            space_of(event["space"]),
            tuple(_objective(document) for document in event["objectives"]),
            site.structured(SiteFacts, event["site"]),
            space_of(event["knobs"]) if "knobs" in event else None,
        )
    except AutotuneError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        what = f"{type(exc).__name__}: {exc}"
        raise JournalError(f"the journal's description of its campaign is damaged: {what}") from exc


def campaign_in(events: Sequence[Mapping[str, Any]]) -> Description | None:
    """The campaign that a journal describes, as it was last asked for; None: there is none.

    Raises:
        ScenarioError: a scenario of another version.
        JournalError: a site of another version, or several campaigns.
    """
    begun = [event for event in events if event["event"] == "campaign"]
    if len(begun) > 1:
        raise JournalError(f"the journal describes {len(begun)} campaigns")
    if not begun:
        return None
    changes = [event for event in events if event["event"] == "changed"]
    asked: list[Any] = [event.get("scenario") for event in (*begun, *changes)]
    if not all(isinstance(part, Mapping) for part in asked):
        raise JournalError("the journal's description of its campaign is damaged: no sections of a scenario")
    sections = {key: value for part in asked for key, value in part.items()}
    return campaign_of({**begun[0], "scenario": sections})


def _objective(document: Mapping[str, Any]) -> Objective:
    weights = {(c, n, m): w for c, n, m, w in document.get("weights", ())}
    limits = (document["min_bytes"], document["max_bytes"])
    return Objective(document["name"], *limits, weights, document.get("goal", ""))
