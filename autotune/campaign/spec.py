"""Describe a campaign as a value, and convert it to and from the journal's ``campaign`` event.

The keys of the event are those that the first version wrote (data flow: journal).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from autotune.errors import AutotuneError, JournalError
from autotune.history.objectives import Objective
from autotune.scenario import NO_STARTS, Scenario, defaults, restored
from autotune.screening.discovery import DiscoveryResult
from autotune.space import Point, Space
from autotune.space.joined import joined
from autotune.space.loader import space_document, space_of
from autotune.structure import Document, plain


class BenchKind(StrEnum):
    """Name the source of launches' results; each value is the first word of a ``Stamp``."""

    REAL = ""  # A real MPI, or the user's own program.
    SIMULATED = "SIMULATED"  # A model of a cluster.
    REPLAYED = "REPLAYED"  # A recorded table.


@dataclass(frozen=True, slots=True)
class Stamp:
    """Label of results that come from a model or a table; empty if they come from a real MPI."""

    kind: BenchKind = BenchKind.REAL  # The source of the launches' results.
    detail: str = ""  # Name of the model or of the recorded table.

    @classmethod
    def of(cls, text: str) -> "Stamp":
        """Parse a stamp from its text."""
        kind, _, detail = text.partition(" ")
        return cls(BenchKind(kind), detail.removeprefix("(").removesuffix(")"))

    def __bool__(self) -> bool:
        return self.kind is not BenchKind.REAL

    def __str__(self) -> str:
        return f"{self.kind} ({self.detail})" if self.detail else self.kind.value


@dataclass(frozen=True, slots=True)
class BenchFacts:
    """Hold the facts that a campaign stores about its bench, the place where its launches are made."""

    description: str = ""  # MPI and UCX versions in one line.
    findings: tuple[tuple[str, str], ...] = ()  # Facts about the machine as pairs (subject, finding).
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of every launch, including launches of the MPI's own defaults."""
    coll: tuple[str, ...] = ()  # The collective components that exist there; empty if not known.
    stamp: Stamp = Stamp()  # Whether a real MPI is measured; otherwise which model or table.
    launcher: Mapping[str, Any] = field(default_factory=dict)
    """Configuration from which the same launcher can be made again; empty: the default launcher."""
    ranks: int = 0  # Number of ranks of a launch; 0 if not known.
    nodes: int = 1  # Number of nodes over which the ranks are spread.
    at_once: bool = False  # Whether several launches can be alive at once and measure in turns.


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Hold the decisions of a complete discovery."""

    space: Space  # The space that is left to search.
    suggested: tuple[Point, ...]  # Points to search first.
    confirmed: tuple[Point, ...]
    """Points to verify whatever the search finds: the discovery confirmed that they gain, and saw no loss at
    any size."""


@dataclass(frozen=True, slots=True)
class CampaignSpec:
    """Describe a campaign: what it tunes, where, and by which criteria, without its observations."""

    scenario: Scenario  # The user's request.
    space: Space  # The parameters that can be set.
    objectives: tuple[Objective, ...]  # The objectives by which settings are compared.
    bench: BenchFacts  # The place where launches are made.
    knobs: Space | None = None
    """With ``space=discover``: the parameters that the stack declares, besides ``space``; else None."""
    discovered: DiscoveryResult | None = None
    """Result of a complete discovery, which reduced the search to ``space``; None without one."""
    narrowing: Narrowing | None = None
    """The decisions of that discovery as stored in the journal; None: none are stored yet."""

    @property
    def discovering(self) -> bool:
        """Whether a discovery precedes the search and is not complete."""
        return self.knobs is not None and self.discovered is None

    @property
    def heats(self) -> bool:
        """Whether launches of settings and of the default are alive at once and measure in turns (a heat)."""
        scenario = self.scenario
        return scenario.launch.heats and self.bench.at_once and scenario.probe.sync == "barrier"

    @property
    def suggested(self) -> tuple[Point, ...]:
        """Return the points to search first; only a discovery suggests any."""
        return self.narrowing.suggested if self.narrowing is not None else ()

    @property
    def confirmed(self) -> tuple[Point, ...]:
        """Return the points that a discovery confirmed, which are verified whatever the search finds."""
        return self.narrowing.confirmed if self.narrowing is not None else ()

    @property
    def whole(self) -> Space:
        """Return the space of everything that a launch of the campaign may set."""
        return joined(self.space, self.knobs) if self.knobs is not None else self.space

    @property
    def name(self) -> str:
        """Return the name of the scenario."""
        return self.scenario.name


LATER = (
    *(("budget", key) for key in ("total_launches", "total_seconds", "node_hours", "until")),
    ("cluster", "oversubscribe"),
    ("mpi", "stack"),
    ("verify", "margin"),
    ("verify", "other_loop"),
    ("verify", "also"),
    ("launch", "heats"),
    *(("objective", key) for key in ("message_rate", "overlap")),
    ("screening", "runs"),
    ("discover", "levels"),
    ("launch", "first_node"),
    ("campaign", "notify"),
)
"""Keys of a scenario that earlier versions did not know; the journal stores them only where they differ from
their defaults."""


def scenario_document(campaign: CampaignSpec) -> dict[str, Any]:
    """Return a campaign's scenario as the journal stores it."""
    scenario = dict(plain(campaign.scenario))
    for section, key in LATER:
        if scenario[section][key] == defaults()[section][key]:
            scenario[section] = {name: value for name, value in scenario[section].items() if name != key}
    for key in ("require", "operations"):
        if scenario[key] in ((), [], defaults()[key]):
            del scenario[key]  # like ``LATER``, these keys were not known to earlier versions
    if scenario["verify"]["max_failures"] == NO_STARTS:
        # Earlier versions did not know this key.
        scenario["verify"] = {k: v for k, v in scenario["verify"].items() if k != "max_failures"}
    if campaign.knobs is None:
        # Without a discovery this section has no meaning, and earlier versions did not write it.
        del scenario["discover"]
    return scenario


def campaign_event(campaign: CampaignSpec) -> dict[str, Any]:
    """Return a campaign's description as an event of the journal."""
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
        "site": _bench_document(campaign.bench),
    }


def narrowed_event(narrowing: Narrowing) -> dict[str, Any]:
    """Return the decisions of a discovery as an event of the journal."""
    points = {key: [plain(p) for p in getattr(narrowing, key)] for key in ("suggested", "confirmed")}
    return {"event": "narrowed", "space": space_document(narrowing.space), **points}


def _narrowing_of(event: Mapping[str, Any]) -> Narrowing:
    """Return the decisions of a discovery from an event of the journal.

    Raises:
        JournalError: the event is damaged.
    """
    try:
        space = space_of(event["space"])
        suggested, confirmed = (tuple(map(Point.of, event[key])) for key in ("suggested", "confirmed"))
    except AutotuneError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        cause = f"{type(exc).__name__}: {exc}"
        raise JournalError(f"the journal's result of its discovery is damaged: {cause}") from exc
    return Narrowing(space, suggested, confirmed)


def _bench_document(bench: BenchFacts) -> dict[str, Any]:
    document = {**plain(bench), "stamp": str(bench.stamp)}
    if not bench.at_once:
        del document["at_once"]  # earlier versions did not know this key
    return document


def campaign_of(event: Mapping[str, Any]) -> CampaignSpec:
    """Return the campaign that a ``campaign`` event of the journal describes.

    Raises:
        ScenarioError: the scenario is of another version.
        JournalError: the bench is of another version, or the description is damaged.
    """
    reader = Document("the journal's site", JournalError, own=True, newer=True)
    try:
        return CampaignSpec(
            restored(event["scenario"]),
            space_of(event["space"]),
            tuple(_objective(document) for document in event["objectives"]),
            reader.structured(BenchFacts, event["site"]),
            space_of(event["knobs"]) if "knobs" in event else None,
        )
    except AutotuneError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        cause = f"{type(exc).__name__}: {exc}"
        raise JournalError(f"the journal's description of its campaign is damaged: {cause}") from exc


def campaign_in(events: Sequence[Mapping[str, Any]]) -> CampaignSpec | None:
    """Return the campaign that a journal describes, with the latest changes to it; None if it describes none.

    Raises:
        ScenarioError: the scenario is of another version.
        JournalError: the bench is of another version, or the journal describes several campaigns.
    """
    started = [event for event in events if event["event"] == "campaign"]
    if len(started) > 1:
        raise JournalError(f"the journal describes {len(started)} campaigns")
    if not started:
        return None
    changes = [event for event in events if event["event"] == "changed"]
    scenarios: list[Any] = [event.get("scenario") for event in (*started, *changes)]
    if not all(isinstance(part, Mapping) for part in scenarios):
        raise JournalError("the journal's description of its campaign is damaged: no sections of a scenario")
    sections = {key: value for part in scenarios for key, value in part.items()}
    campaign = campaign_of({**started[0], "scenario": sections})
    narrowings = [event for event in events if event["event"] == "narrowed"]
    return replace(campaign, narrowing=_narrowing_of(narrowings[-1])) if narrowings else campaign


def _objective(document: Mapping[str, Any]) -> Objective:
    weights = {(c, n, m): w for c, n, m, w in document.get("weights", ())}
    limits = (document["min_bytes"], document["max_bytes"])
    return Objective(document["name"], *limits, weights, document.get("goal", ""))
