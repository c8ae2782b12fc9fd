"""Computes from the counters of a machine's kernel how much other work disturbs the measured ranks.

The probe (step 6 of the data flow) reads the counters. Notation: a *core* is a logical processor of the
kernel. Loads are numbers of cores: 1.0 is a core that is always busy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class CoreLimits:
    """Thresholds above which a machine counts as disturbed by other work."""

    quiet_cores: float = 0.1  # Cores that may be busy with other work: daemons and the timer.
    quiet_share: float = 0.05  # The same limit as a share of all cores; the larger of the two limits counts.
    stolen_cores: float = 0.05  # Cores that the host of a virtual machine may take on average.
    clock_share: float = 0.75  # A measuring core below this share of its highest frequency counts as slow.


LIMITS = CoreLimits()


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters of one machine's kernel since its start, summed over all cores of the machine."""

    at_s: float  # Time of the reading, in seconds of any clock.
    busy_s: float  # Seconds in which a core was busy, summed over cores.
    stolen_s: float  # Seconds in which the host of a virtual machine ran other guests on a core.
    cores: int  # Number of cores of the machine.
    throttled: int = 0  # Number of times that a core was slowed down for heat or power.


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Interference of other work with the ranks on one machine."""

    cores: float  # Number of cores of the machine.
    other_load_cores: float = 0.0  # Cores kept busy by work other than the ranks'.
    stolen_cores: float = 0.0  # Cores taken by the host of a virtual machine.
    throttled: float = 0.0  # Number of times that a core was slowed down for heat or power.
    clock_share: float = 1.0  # Frequency of the slowest measuring core, as a share of its highest frequency.
    crowded_ranks: float = 0.0  # Number by which the ranks exceed the cores that they may use.

    @property
    def figures(self) -> dict[str, float]:
        """Return every field by its name in the campaign's journal."""
        return {_figure(field.name): getattr(self, field.name) for field in fields(self)}

    @classmethod
    def of(cls, figures: Mapping[str, float]) -> "Disturbance | None":
        """Return the interference that a launch reported as figures by name; None if it reported none."""
        names = {field.name: _figure(field.name) for field in fields(cls)}
        reported = {name: figures[figure] for name, figure in names.items() if figure in figures}
        return cls(**reported) if "cores" in reported else None

    @property
    def words(self) -> tuple[str, ...]:
        """Describe the interference above the limits, with one phrase for each kind of interference."""
        messages = []
        if self.other_load_cores > max(LIMITS.quiet_cores, LIMITS.quiet_share * self.cores):
            messages.append(f"other work on {self.other_load_cores:.1f} of {self.cores:g} cores")
        if self.stolen_cores > LIMITS.stolen_cores:
            messages.append(f"{self.stolen_cores:.2f} cores taken by the host of this virtual machine")
        if self.throttled:
            messages.append(f"cores slowed down {self.throttled:g} times for heat or power")
        if self.clock_share < LIMITS.clock_share:
            messages.append(f"a core at {100 * self.clock_share:.0f} % of its frequency")
        if self.crowded_ranks:
            messages.append(f"{self.crowded_ranks:g} ranks more than cores")
        return tuple(messages)


def _figure(name: str) -> str:
    """Return the name that a field of ``Disturbance`` has in the campaign's journal."""
    return {"cores": "machine_cores", "throttled": "throttled_times"}.get(name, name)


def disturbance(earlier: Counters, later: Counters, own_s: float, clock_share: float = 1.0) -> Disturbance:
    """Return the interference on a machine between two readings of its counters.

    Args:
        earlier: The first reading.
        later: The second reading; if it is not later than the first one, no interference is reported.
        own_s: Processor time of the ranks between the readings, in seconds, which is subtracted.
        clock_share: Frequency of the slowest measuring core as a share of its highest frequency.
    """
    span_s = later.at_s - earlier.at_s
    if span_s <= 0:
        return Disturbance(later.cores, 0.0)
    other_load = (later.busy_s - earlier.busy_s - own_s) / span_s
    stolen = (later.stolen_s - earlier.stolen_s) / span_s
    throttled = max(0, later.throttled - earlier.throttled)
    return Disturbance(later.cores, max(0.0, other_load), max(0.0, stolen), throttled, clock_share)


def worst(disturbances: Sequence[Disturbance]) -> Disturbance:
    """Return the worst value of each field among the machines, of which there must be at least one."""
    minimum, maximum = (
        {
            field.name: pick(getattr(machine, field.name) for machine in disturbances)
            for field in fields(Disturbance)
        }
        for pick in (min, max)
    )
    return Disturbance(**maximum | {name: minimum[name] for name in ("cores", "clock_share")})
