"""The scenario: what the user asks a campaign to do, as a frozen dataclass (step 1 of the data flow).

Modules that use a scenario need neither Hydra nor OmegaConf. The default and the documentation of each key
are in ``conf/config.yaml`` and in the groups next to it, nowhere else. The dataclasses define the types;
``scenario_of`` checks a configuration that was composed from these files against the types.
"""

import re
from collections.abc import Collection, Mapping
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
"""Sections that may change when a campaign is continued, because they do not change what a launch
measures."""
COMMUTATIVE = "commutative"
"""Value of ``operations`` that states that all reductions in the users' programs are commutative."""
NO_STARTS = 1.0
"""Value of ``verify.max_failures`` with which no launches are made only to find out whether they fail."""
STACKS = ("openmpi5", "openmpi4", "mpich", "intelmpi")
"""MPI implementations that a scenario can ask for, in part with their major version."""
PATHS = (
    *("campaign.dir", "cluster.hostfile", "discover.space", "mpi.mpirun"),
    *("objective.weights", "space", "warm_start"),
)
"""Keys that name a file or a directory."""
CHOICES: Mapping[str, Collection[str]] = {
    **dict.fromkeys(("collective", "verify.also"), MEASURED),
    "pattern": PATTERNS,
    "objectives": UNITS,
    "require": ("reproducible",),
    "operations": ("any", COMMUTATIVE),
    "mpi.stack": ("any", *STACKS),
    "mpi.from": ("auto", "site", "wheel"),
    "probe.kind": ("mpi", "command"),
    "verify.other_loop": ("ignored", "shown", "counts"),
    "launch.with": ("auto", "mpirun", "srun"),
    "probe.options.pass": ("arguments", "environment", "template"),
    "probe.options.answer": ("json", "patterns"),
}
"""Maps each key whose values are words of a list, or lists of such words, to these words."""
RANGES: Mapping[str, float] = {
    **dict.fromkeys(("baseline.launches", "seed"), inf),
    **dict.fromkeys(("launch.queue_timeout_s", "stop.min_gain", "verify.launches"), inf),
    **dict.fromkeys(("confirm.share", "discover.share", "discover.rate"), 1),
}
"""Maps each key whose value must be at least 0 to its largest allowed value."""
LARGEST_BYTES, _LARGEST = 1 << 50, "1024T"
"""Largest message size in bytes, and the same size as users write it."""
POSITIVE = {"budget": ("launches", "total_launches", "seconds", "total_seconds", "node_hours"),
             "cluster": ("nodes", "ranks", "ppn"), "probe": ("budget_s",),
             "launch": ("timeout_s", "first_node"),
             "discover": ("launches", "seconds", "probe_s", "levels", "rounds"),
}  # fmt: skip
"""Maps each section to its keys whose values have to be above zero, if they are set."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The user's request for one campaign; the keys are documented in ``conf/config.yaml``."""

    name: str
    collective: tuple[str, ...]
    sizes: tuple[int, ...]
    space: str
    campaign: sections.CampaignPlace
    cluster: sections.Cluster
    mpi: sections.Mpi
    operations: str
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
            _among("collective", name)
        for name in self.require:
            _among("require", name)
        _among("operations", self.operations)
        for name in self.objectives:
            _among("objectives", name)
        if not self.collective or not self.objectives:
            raise ScenarioError("objectives, and collective or pattern, must name at least one each")
        for section, names in POSITIVE.items():
            for name in names:
                value = getattr(getattr(self, section), name)
                if value is not None and value <= 0:
                    raise ScenarioError(f"{section}.{name}={value}", "expected a number above zero")
        if not re.fullmatch(r"([01]?\d|2[0-3]):[0-5]\d", self.budget.until or "0:00"):
            raise ScenarioError(f"budget.until={self.budget.until}", "expected a time of day such as '08:00'")
        _among("mpi.stack", self.mpi.stack)
        _among("mpi.from", self.mpi.origin)
        _among("probe.kind", self.probe.kind)
        if self.probe.kind == "mpi":
            for name in self.probe.options:
                if name != "loop":
                    raise ScenarioError(f"probe.options={name}", allowed(name, ("loop",)))
        if (self.probe.kind == "command") != bool(self.responses):
            raise ScenarioError(
                f"probe.kind={self.probe.kind} with responses={dict(self.responses)}",
                "probe=command needs responses, e.g. responses.runtime_s=min; probe.kind=mpi has none",
            )
        for name in self.verify.also:
            _among("verify.also", name)
        _among("verify.other_loop", self.verify.other_loop)
        if self.verify.other_loop == "counts" and (self.probe.kind != "mpi" or self.probe.sync != "barrier"):
            raise ScenarioError(
                f"verify.other_loop=counts with probe.kind={self.probe.kind}, probe.sync={self.probe.sync}",
                "only an MPI's calls are timed in two loops, and a tight one needs probe.sync=barrier",
            )
        _among("launch.with", self.launch.tool)
        for key, high in RANGES.items():
            if not 0 <= (value := attrgetter(key)(self)) <= high:
                limit = "or more" if high == inf else f"… {high}"
                raise ScenarioError(f"{key}={value}", f"allowed: 0 {limit}")
        for key in PATHS:
            _path(key, attrgetter(key)(self) or "")

    @property
    def title(self) -> str:
        """The name of the scenario; its collectives are added if the name mentions other collectives."""
        mentioned = {name for name in MEASURED if re.search(rf"(?<![a-z]){name}(?![a-z])", self.name)}
        if not mentioned or mentioned >= set(self.collective):
            return self.name
        return f"{self.name} with collective={','.join(self.collective)}"

    @property
    def ranks(self) -> int | None:
        """The number of ranks of a launch; None if the scenario does not define it."""
        if self.cluster.ranks is not None:
            return self.cluster.ranks
        return self.cluster.nodes * self.cluster.ppn if self.cluster.ppn else None

    @property
    def loop(self) -> str:
        """The order of timed calls: ``interleaved`` (settings alternate) or ``tight`` (calls back to back).

        The probe raises an error for other values.
        """
        return str(self.probe.options.get("loop", "interleaved"))

    @property
    def other_loop(self) -> str:
        """The second order in which the verification also times calls; empty if there is only ``loop``."""
        is_measured = self.verify.other_loop != "ignored" and self.probe.sync == "barrier"
        return ("tight" if self.loop == "interleaved" else "interleaved") if is_measured else ""

    @property
    def directory(self) -> Path:
        """The path of the campaign's directory."""
        return Path(self.campaign.dir)

    @property
    def alone(self) -> "Scenario":
        """The same scenario on the first available nodes, not on those from ``launch.first_node`` on."""
        return replace(self, launch=replace(self.launch, first_node=None))

    def program(self) -> sections.Program:
        """Return ``probe.options`` of ``probe=command``: the program, and how parameters are passed to it.

        Raises:
            ScenarioError: a key is unknown, or a value is not allowed.
        """
        document = Document("the scenario", ScenarioError)
        options = document.structured(sections.Program, self.probe.options, "probe.options")
        _among("probe.options.pass", options.way)
        _among("probe.options.answer", options.answer)
        if not options.run or not options.run[0]:
            raise ScenarioError("probe.options.run is empty", "e.g. probe.options.run=[python3,my_app.py]")
        if any("\0" in word for word in options.run):
            raise ScenarioError(f"probe.options.run={list(options.run)}", "no word has a null byte")
        _path("probe.options.file", options.file or "")
        for name, pattern in options.patterns.items():
            check_pattern(pattern, f"probe.options.patterns.{name}", ScenarioError)
        return options

    def judged(self) -> tuple[Objective, ...]:
        """Return the objectives that compare settings: those that apply to some measured message size.

        Raises:
            ScenarioError: none of the objectives applies to any measured message size.
        """
        if self.responses:
            return tuple(Objective(name, goal=str(goal)) for name, goal in self.responses.items())
        counting = []
        for name in self.objectives:
            limits: sections.Limits = getattr(self.objective, name)
            objective = Objective(name, limits.min_bytes, limits.max_bytes)
            if name == "memory" or any(
                objective.covers((c, 0, n)) for c in self.collective for n in self.sizes
            ):
                counting.append(objective)
        if not counting:
            raise ScenarioError(
                f"no size of sizes={list(self.sizes)} counts for objectives={list(self.objectives)}",
                "change sizes, or objective.latency.max_bytes and objective.bandwidth.min_bytes; "
                "message_rate wants a pattern of pairs, overlap one that ends in _overlap",
            )
        return tuple(counting)


@cache
def defaults() -> Mapping[str, Any]:
    """Return all keys with their defaults, as in ``conf/config.yaml`` and the groups that it names."""
    document: dict[str, Any] = yaml.safe_load(conf_text("config"))
    choices = [entry for entry in document.pop("defaults") if isinstance(entry, dict)]
    for group, option in (pair for entry in choices for pair in entry.items()):
        if option and group in Scenario.__dataclass_fields__:
            document[group] = yaml.safe_load(conf_text(f"{group}/{option}"))
    return document


def scenario_of(document: Mapping[str, Any], name: str) -> Scenario:
    """Return the scenario that a composed configuration describes.

    Keys that are missing in a section of the configuration get their defaults.

    Args:
        document: The configuration.
        name: Name of the scenario.

    Raises:
        ScenarioError: a key is unknown or missing, or a value has the wrong type or is out of range; the
            message names the key.
    """
    settings = {key: value for key, value in completed(document).items() if key in document}
    settings = {key: value for key, value in settings.items() if key not in ("hydra", "conf")} | {
        "name": name
    }
    if "sizes" in settings:
        settings["sizes"] = sizes_of(settings["sizes"])
    for key in ("collective", "pattern", "objectives", "export", "require"):
        if isinstance(settings.get(key), str):
            settings[key] = [part.strip() for part in settings[key].split(",") if part.strip()]
    patterns = settings.pop("pattern", None) or ()
    if not isinstance(patterns, (list, tuple)):
        raise ScenarioError(f"pattern={patterns!r} is no list", allowed("", PATTERNS))
    for pattern in patterns:
        _among("pattern", pattern)
    if patterns and isinstance(collectives := settings.get("collective") or (), (list, tuple)):
        # Both kinds are measured and compared in the same way.
        settings["collective"] = [*collectives, *patterns]
    return Document("the scenario", ScenarioError).structured(Scenario, settings)


def completed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration in which all missing keys, also those in its sections, have their defaults."""
    return _over(defaults(), document)


def restored(document: Mapping[str, Any]) -> Scenario:
    """Return the scenario in a campaign's journal, which ``structure.plain`` wrote.

    Keys of this version that the journal does not contain get their defaults.

    Raises:
        ScenarioError: the journal has values that this version does not allow.
    """
    today = plain(scenario_of({**defaults(), "campaign": {"dir": "", "fresh": False, "notify": []}}, ""))
    today["verify"]["max_failures"] = NO_STARTS  # earlier versions made no launches only to find failures
    journal = Document("the scenario", ScenarioError, own=True, newer=True)
    return journal.structured(Scenario, _over(today, document))


def _over(base: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**base, **document}
    for key in base.keys() & document.keys():
        if isinstance(base[key], Mapping) and isinstance(document[key], Mapping):
            merged[key] = _over(base[key], document[key])
    return merged


def sizes_of(declared: Any) -> list[int]:
    """Return message sizes in bytes, sorted, from a list or a range.

    An example of a list is ``[8, 1k, 1M]``. In a range, such as ``8..1M`` or ``8..1M*4``, each size is the
    size before it times a factor, which is 2 if the range contains no factor.

    Raises:
        ScenarioError: an entry is not a size, or there are no sizes.
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


def _among(key: str, value: str) -> None:
    if value not in CHOICES[key]:
        raise ScenarioError(f"{key}={value}", allowed(value, CHOICES[key]))


def _path(key: str, text: str) -> None:
    longest = max((len(part.encode(errors="replace")) for part in Path(text).parts), default=0)
    if "\0" in text or len(text) > 4095 or longest > 255:
        raise ScenarioError(f"{key}={text}", "expected a path, each name in it of at most 255 bytes")
