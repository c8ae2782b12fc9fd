"""The user's request, frozen (step 1 of the flow): Hydra and OmegaConf end here.

Every key has its default and its documentation in ``conf/config.yaml`` and the groups beside it, nowhere
else. The dataclasses below say the types; ``scenario_of`` checks a composed configuration against them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Any

import yaml

from autotune.collectives import MEASURED, PATTERNS
from autotune.errors import ScenarioError, allowed
from autotune.history.objectives import UNITS, Objective
from autotune.resources import conf_text
from autotune.scenario import sections
from autotune.scenario.pattern import check_pattern
from autotune.space import size_in_bytes
from autotune.structure import Document, plain

CHANGEABLE = ("budget", "verify", "export", "campaign", "stop", "confirm", "launch", "warm_start", "proposer")
"""Sections that may differ when a campaign is continued: none changes what its launches mean."""
STACKS = ("openmpi5", "openmpi4", "mpich", "intelmpi")
"""Implementations that a scenario can ask for, some with their major version."""
PATHS = (
    *("campaign.dir", "cluster.hostfile", "discover.space", "mpi.mpirun"),
    *("objective.weights", "space", "warm_start"),
)
"""Keys that name a file or a directory."""
_RANGES: Mapping[str, float] = {
    **dict.fromkeys(("baseline.launches", "baseline.every", "launch.patience_s", "seed"), inf),
    **dict.fromkeys(("launch.queue_timeout_s", "stop.min_gain", "verify.launches"), inf),
    **dict.fromkeys(("confirm.share", "discover.share", "discover.rate"), 1),
}
"""Keys of at least 0 → what they are at most."""
LARGEST_BYTES, _LARGEST = 1 << 50, "1024T"  # Of a message: more than all memory of any node.
_POSITIVE = {"budget": ("launches", "total_launches", "seconds", "total_seconds", "node_hours"),
             "cluster": ("nodes", "ranks", "ppn"), "probe": ("budget_s",),
             "launch": ("timeout_s", "first_node"),
             "discover": ("launches", "seconds", "probe_s", "levels", "rounds"),
}  # fmt: skip
"""Keys that are above zero, where they are set."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that one campaign was asked to do."""

    name: str
    collective: tuple[str, ...]
    sizes: tuple[int, ...]
    space: str
    campaign: sections.CampaignPlace
    cluster: sections.Cluster
    mpi: sections.Mpi
    require: tuple[str, ...]
    fix: Mapping[str, Any]
    objectives: tuple[str, ...]
    objective: sections.Weighing
    responses: Mapping[str, Any]
    budget: sections.Budget
    baseline: sections.Baseline
    screening: sections.Screening
    discover: sections.Discover
    proposer: sections.ProposerChoice
    stop: sections.Stop
    confirm: sections.Confirm
    verify: sections.Verify
    probe: sections.Probe
    launch: sections.Launch
    export: tuple[str, ...]
    machine: Mapping[str, Any]
    simulate: Mapping[str, Any]
    replay: Mapping[str, Any]
    warm_start: str | None
    seed: int

    def __post_init__(self) -> None:
        for name in self.collective:
            _among("collective", name, MEASURED)
        for name in self.require:
            _among("require", name, ("reproducible",))
        for name in self.objectives:
            _among("objectives", name, UNITS)
        if not self.collective or not self.objectives:
            raise ScenarioError("objectives, and collective or pattern, must name at least one each")
        for section, names in _POSITIVE.items():
            for name in names:
                value = getattr(getattr(self, section), name)
                if value is not None and value <= 0:
                    raise ScenarioError(f"{section}.{name}={value}", "expected a number above zero")
        if not re.fullmatch(r"([01]?\d|2[0-3]):[0-5]\d", self.budget.until or "0:00"):
            raise ScenarioError(f"budget.until={self.budget.until}", "expected a time of day such as '08:00'")
        _among("mpi.stack", self.mpi.stack, ("any", *STACKS))
        _among("mpi.from", self.mpi.origin, ("auto", "site", "wheel"))
        _among("probe.kind", self.probe.kind, ("mpi", "command"))
        if self.probe.kind == "mpi":
            for name in self.probe.options:
                _among("probe.options", name, ("loop",))
        if (self.probe.kind == "command") != bool(self.responses):
            raise ScenarioError(
                f"probe.kind={self.probe.kind} with responses={dict(self.responses)}",
                "probe=command needs responses, e.g. responses.runtime_s=min; probe.kind=mpi has none",
            )
        for name in self.verify.also:
            _among("verify.also", name, PATTERNS)
        _among("verify.other_loop", self.verify.other_loop, ("ignored", "shown", "counts"))
        if self.verify.other_loop == "counts" and (self.probe.kind != "mpi" or self.probe.sync != "barrier"):
            raise ScenarioError(
                f"verify.other_loop=counts with probe.kind={self.probe.kind}, probe.sync={self.probe.sync}",
                "only an MPI's calls are timed in two loops, and a tight one needs probe.sync=barrier",
            )
        _among("launch.with", self.launch.tool, ("auto", "mpirun", "srun"))
        for key, high in _RANGES.items():
            if not 0 <= (value := attrgetter(key)(self)) <= high:
                most = "or more" if high == inf else f"… {high}"
                raise ScenarioError(f"{key}={value}", f"allowed: 0 {most}")
        for key in PATHS:
            _path(key, attrgetter(key)(self) or "")

    @property
    def title(self) -> str:
        """Its name, with what is measured where the name speaks of other collectives."""
        said = {name for name in MEASURED if re.search(rf"(?<![a-z]){name}(?![a-z])", self.name)}
        if not said or said >= set(self.collective):
            return self.name
        return f"{self.name} with collective={','.join(self.collective)}"

    @property
    def ranks(self) -> int | None:
        """Ranks of a launch, if the scenario says so."""
        if self.cluster.ranks is not None:
            return self.cluster.ranks
        return self.cluster.nodes * self.cluster.ppn if self.cluster.ppn else None

    @property
    def loop(self) -> str:
        """In which order the probe times calls; whether there is such an order the probe says."""
        return str(self.probe.options.get("loop", "interleaved"))

    @property
    def other_loop(self) -> str:
        """The loop that the verification measures beside it; empty: none."""
        wanted = self.verify.other_loop != "ignored" and self.probe.sync == "barrier"
        return ("tight" if self.loop == "interleaved" else "interleaved") if wanted else ""

    @property
    def directory(self) -> Path:
        """Directory of the campaign."""
        return Path(self.campaign.dir)

    @property
    def alone(self) -> "Scenario":
        """The same on the first nodes that are there: a job of a site may have been made beside others."""
        return replace(self, launch=replace(self.launch, first_node=None))

    def program(self) -> sections.Program:
        """The program of ``probe=command`` and its options.

        Raises:
            ScenarioError: an unknown key, or a value that is not allowed.
        """
        document = Document("the scenario", ScenarioError)
        its = document.structured(sections.Program, self.probe.options, "probe.options")
        _among("probe.options.pass", its.way, ("arguments", "environment", "template"))
        _among("probe.options.answer", its.answer, ("json", "patterns"))
        if not its.run or not its.run[0]:
            raise ScenarioError("probe.options.run is empty", "e.g. probe.options.run=[python3,my_app.py]")
        if any("\0" in word for word in its.run):
            raise ScenarioError(f"probe.options.run={list(its.run)}", "no word has a null byte")
        _path("probe.options.file", its.file or "")
        for name, pattern in its.patterns.items():
            check_pattern(pattern, f"probe.options.patterns.{name}", ScenarioError)
        return its

    def judged(self) -> tuple[Objective, ...]:
        """The objectives that have a message size to be judged on.

        Raises:
            ScenarioError: none of them has.
        """
        if self.responses:
            return tuple(Objective(name, goal=str(goal)) for name, goal in self.responses.items())
        counting = []
        for name in self.objectives:
            limits: sections.Limits = getattr(self.objective, name)
            one = Objective(name, limits.min_bytes, limits.max_bytes)
            if name == "memory" or any(one.covers((c, 0, n)) for c in self.collective for n in self.sizes):
                counting.append(one)
        if not counting:
            raise ScenarioError(
                f"no size of sizes={list(self.sizes)} counts for objectives={list(self.objectives)}",
                "change sizes, or objective.latency.max_bytes and objective.bandwidth.min_bytes; "
                "message_rate wants a pattern of pairs, overlap one that ends in _overlap",
            )
        return tuple(counting)


@cache
def defaults() -> Mapping[str, Any]:
    """Every key with its default: what ``conf/config.yaml`` composes to before a ``conf`` is chosen."""
    document: dict[str, Any] = yaml.safe_load(conf_text("config"))
    chosen = [entry for entry in document.pop("defaults") if isinstance(entry, dict)]
    for group, option in (pair for entry in chosen for pair in entry.items()):
        if option and group in Scenario.__dataclass_fields__:
            document[group] = yaml.safe_load(conf_text(f"{group}/{option}"))
    return document


def scenario_of(document: Mapping[str, Any], name: str) -> Scenario:
    """The scenario in a composed configuration; what a section of it lacks is as in ``defaults``.

    Raises:
        ScenarioError: an unknown or missing key, a value of the wrong type or out of range; the message names
            the key.
    """
    asked = {key: value for key, value in completed(document).items() if key in document}
    asked = {key: value for key, value in asked.items() if key not in ("hydra", "conf")} | {"name": name}
    if "sizes" in asked:
        asked["sizes"] = sizes_of(asked["sizes"])
    for key in ("collective", "pattern", "objectives", "export", "require"):
        if isinstance(asked.get(key), str):
            asked[key] = [part.strip() for part in asked[key].split(",") if part.strip()]
    patterns = asked.pop("pattern", None) or ()
    if not isinstance(patterns, (list, tuple)):
        raise ScenarioError(f"pattern={patterns!r} is no list", allowed("", PATTERNS))
    for one in patterns:
        _among("pattern", one, PATTERNS)
    if patterns and isinstance(collectives := asked.get("collective") or (), (list, tuple)):
        asked["collective"] = [*collectives, *patterns]  # measured and judged alike
    return Document("the scenario", ScenarioError).structured(Scenario, asked)


def completed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A composed configuration with what it and its sections lack as it is in ``defaults``."""
    return _over(defaults(), document)


def restored(document: Mapping[str, Any]) -> Scenario:
    """The scenario that a journal holds, as ``structure.plain`` wrote it; keys of later versions by default.

    Raises:
        ScenarioError: values of another version.
    """
    today = plain(scenario_of({**defaults(), "campaign": {"dir": "", "fresh": False, "notify": []}}, ""))
    journal = Document("the scenario", ScenarioError, own=True, newer=True)
    return journal.structured(Scenario, _over(today, document))


def _over(base: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a document, and those that it lacks as they are in ``base``."""
    merged = {**base, **document}
    for key in base.keys() & document.keys():
        if isinstance(base[key], Mapping) and isinstance(document[key], Mapping):
            merged[key] = _over(base[key], document[key])
    return merged


def sizes_of(declared: Any) -> list[int]:
    """Message sizes in bytes: a list (``[8, 1k, 1M]``) or a range of powers (``8..1M``, ``8..1M*4``).

    Raises:
        ScenarioError: something that is not a size, or no size at all.
    """
    if isinstance(declared, str) and ".." in declared:
        match = re.fullmatch(r"\s*(\S+?)\.\.([^*\s]+)(?:\*(\d{1,15}))?\s*", declared)
        ends = [size_in_bytes(part) for part in match.group(1, 2)] if match else [None]
        factor = int(match[3] or 2) if match else 0
        low, high = (ends[0], ends[-1])
        if low is None or high is None or low < 1 or not low <= high <= LARGEST_BYTES or factor < 2:
            raise ScenarioError(
                f"sizes={declared!r}", f"a list of bytes, LOW..HIGH or LOW..HIGH*FACTOR, at most {_LARGEST}"
            )
        powers, size = [], int(low)
        while size <= high:
            powers.append(size)
            size *= factor
        return powers
    items = declared if isinstance(declared, list | tuple) else [declared]
    sizes = []
    for item in items:
        number = size_in_bytes(item) if type(item) in (str, int, float) else None
        if number is None or not 0 <= number <= LARGEST_BYTES or not number.is_integer():
            raise ScenarioError(
                f"sizes holds {item!r}",
                f"allowed: whole bytes, with k, M or G, such as 8, 64k, 1M, at most {_LARGEST}",
            )
        sizes.append(int(number))
    if not sizes:
        raise ScenarioError(
            "sizes is empty", "give message sizes in bytes, e.g. sizes=[8,1k,64k,1M] or sizes=8..1M"
        )
    return sorted(set(sizes))


def _among(key: str, value: str, choices: Iterable[str]) -> None:
    if value not in choices:
        raise ScenarioError(f"{key}={value}", allowed(value, choices))


def _path(key: str, text: str) -> None:
    longest = max((len(part.encode(errors="replace")) for part in Path(text).parts), default=0)
    if "\0" in text or len(text) > 4095 or longest > 255:
        raise ScenarioError(f"{key}={text}", "expected a path, each name in it of at most 255 bytes")
