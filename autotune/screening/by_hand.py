"""A design for a person to carry out, and what it can see (steps 2 and 3 of the flow, without a machine)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotune.errors import TableError, UserError, allowed
from autotune.importers.table import Row
from autotune.screening.design import Factor, ScreeningDesign, plackett_burman
from autotune.screening.power import detectable_effect, power

_NEEDED, _OPTIONAL = ("factor", "low", "high"), ("centre",)


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What a design can see of each factor."""

    sigma: float
    """Standard deviation of one run, on the scale of the analysis."""
    effect: float | None
    """The effect that was asked about."""
    power: dict[str, float]
    """By factor the probability that such an effect is called active; empty without one."""
    detectable: dict[str, float]
    """By factor the effect that is called active with a probability of 80 %."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How large a design is to be."""

    runs: int
    """Of a block, centre points not counted."""
    blocks: int = 1
    """Replicates, one after the other."""
    centre_points: int = 0
    """Of a block."""
    seed: int = 0
    """Of the run order."""

    def design(self, factors: Sequence[Factor]) -> ScreeningDesign:
        """A Plackett–Burman design of exactly this size, in random order.

        Raises:
            UserError: no design of so many runs for these factors, or centre points without a centre.
        """
        design = plackett_burman(
            factors,
            np.random.default_rng(self.seed),
            blocks=self.blocks,
            centre_points=self.centre_points,
            min_runs=self.runs,
        )
        size = design.n_runs // self.blocks - self.centre_points
        if size != self.runs:
            raise UserError(
                f"no design has {self.runs} runs for {len(factors)} factors", f"the next one has {size}"
            )
        return design


def factors_in(name: str, columns: Sequence[str], rows: Sequence[Row]) -> tuple[Factor, ...]:
    """The factors in a table with the columns ``factor``, ``low``, ``high`` and perhaps ``centre``.

    Raises:
        TableError: a column that is missing or unknown, or an empty field.
        UserError: a factor with one value at both levels.
    """
    for column in _NEEDED:
        if column not in columns:
            raise TableError(
                f"{name} has no column {column!r}", f"needed: {', '.join(_NEEDED)}; also: centre"
            )
    for column in columns:
        if column not in (*_NEEDED, *_OPTIONAL):
            raise TableError(f"{name}: unknown column {column!r}", allowed(column, (*_NEEDED, *_OPTIONAL)))
    for number, row in enumerate(rows, start=2):
        if empty := [column for column in _NEEDED if not row[column]]:
            raise TableError(f"{name}, row {number}, column {empty[0]}: nothing is said")
    return tuple(Factor(r["factor"], r["low"], r["high"], r.get("centre") or None) for r in rows)


def sensitivity(design: ScreeningDesign, sigma: float, effect: float | None) -> Sensitivity:
    """What a design can see where a run scatters by ``sigma``.

    Raises:
        UserError: ``sigma`` is not positive.
    """
    rng = np.random.default_rng(0)
    powers = {} if effect is None else power(design, effect, sigma, rng)
    return Sensitivity(sigma, effect, powers, detectable_effect(design, sigma, rng))
