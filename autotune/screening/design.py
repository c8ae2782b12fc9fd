"""Two-level designs for a screening: the points that are run, and their order.

Place in the flow of ``autotune/__init__.py``: step 3, screening.

Notation: ``coded`` is (n_runs, n_factors) with −1 at a factor's low level, +1 at its high level and 0 at its
centre. A *block* is one replicate of the design in time. A *whole-plot* factor is one whose change needs a
reboot. A *whole plot* is a stretch of consecutive runs with the same values of all whole-plot factors:
between two whole plots the machine is rebooted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from autotune.errors import UserError
from autotune.space import Value

_MOST_FACTORS = 100
"""Largest number of factors. Aliases and the fit are computed for each pair of factors, which takes 16 s and
110 MB for 80 factors; 300 factors would have millions of aliases."""
_MOST_RUNS = 10_000  # Largest number of runs, including centre points and replicates.
Matrix = NDArray[np.float64]
_HADAMARD_BASES = frozenset({1, 12, 20})
"""Orders of the matrices from which pyDOE3 builds Hadamard matrices of order base · 2^e."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A parameter reduced to two levels and, if its values are on a scale, a centre between the levels."""

    name: str  # Name of the parameter.
    low: Value  # Value of the parameter at −1.
    high: Value  # Value of the parameter at +1.
    centre: Value | None = None  # Value of the parameter at 0; None if it has no value between the levels.
    whole_plot: bool = False
    """Whether a change needs a reboot; runs with equal values of such factors are grouped."""

    def __post_init__(self) -> None:
        if self.low == self.high:
            raise UserError(
                f"factor {self.name!r} has the same value at both levels: {self.low!r}",
                "a factor needs two different levels",
            )

    def value(self, code: float) -> Value:
        """Return the value at a code: low below zero, high above zero, the centre at zero.

        Raises:
            UserError: the code is zero and the factor has no centre.
        """
        if code == 0:
            if self.centre is None:
                raise UserError(f"factor {self.name!r} has no centre", "it can only be low or high")
            return self.centre
        return self.low if code < 0 else self.high


@dataclass(frozen=True, slots=True, eq=False)
class ScreeningDesign:
    """The runs of a screening in the order in which they are made.

    A user's table that is analysed like a screening has the same form.
    """

    factors: tuple[Factor, ...]  # The factors, one for each column of ``coded``.
    coded: Matrix  # Codes of the factors in each run, (n_runs, n_factors), in [−1, 1].
    order: tuple[int, ...]  # For each run, its row in its block before the order was randomised.
    blocks: tuple[int | str, ...]  # For each run, the name or number of its block.
    whole_plots: tuple[int, ...]
    """For each run, the number of its whole plot. The machine is rebooted wherever this number changes."""
    centre: tuple[bool, ...]
    """For each run, whether it is a centre point. In other runs a code of 0 means that the factor had no
    effect there, because a condition of its parameter was not met."""

    def __post_init__(self) -> None:
        """Make the matrix read-only, and raise an error unless the fields match each other.

        Raises:
            UserError: shapes differ, a name occurs twice, a code lies outside of [−1, 1], or too many
                factors or runs.
        """
        coded = np.array(self.coded, dtype=float)
        coded.flags.writeable = False
        object.__setattr__(self, "coded", coded)
        n_runs = len(self.order)
        _check_room(len(self.factors), n_runs)
        if coded.shape != (n_runs, len(self.factors)):
            raise UserError(f"{coded.shape} codes for {n_runs} runs of {len(self.factors)} factors")
        if {len(getattr(self, name)) for name in _OF_RUNS} != {n_runs}:
            raise UserError(f"blocks, whole plots and centre must be given for each of the {n_runs} runs")
        names = [factor.name for factor in self.factors]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UserError(f"factor named twice: {', '.join(twice)}", "each factor has a name of its own")
        if not np.all(np.abs(coded) <= 1):
            raise UserError("a code lies outside of [−1, 1]")

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the factors, in the order of the columns."""
        return tuple(factor.name for factor in self.factors)

    @property
    def n_runs(self) -> int:
        """Return the number of runs, centre points included."""
        return len(self.order)

    def points(self) -> list[dict[str, Value]]:
        """Return for each run, in order, the value of each factor by the factor's name."""
        return [
            {factor.name: factor.value(code) for factor, code in zip(self.factors, codes, strict=True)}
            for codes in self.coded.tolist()
        ]

    def followed_by(self, later: ScreeningDesign) -> ScreeningDesign:
        """Return this design and a later design of the same factors as one experiment, with separate blocks.

        Raises:
            UserError: the factors differ.
        """
        if later.factors != self.factors:
            raise UserError("only designs of the same factors can be joined")
        blocks = [(False, block) for block in self.blocks] + [(True, block) for block in later.blocks]
        names = {block: number for number, block in enumerate(dict.fromkeys(blocks))}
        shift = 1 + max(self.whole_plots, default=-1) - min(later.whole_plots, default=0)
        plots = _whole_plot_columns(self.factors)
        if self.n_runs and later.n_runs and np.array_equal(self.coded[-1, plots], later.coded[0, plots]):
            # There is no reboot, because the machine already has the boot-level settings of the first later
            # run.
            shift -= 1
        return ScreeningDesign(
            factors=self.factors,
            coded=np.vstack([self.coded, later.coded]),
            order=self.order + later.order,
            blocks=tuple(names[block] for block in blocks),
            whole_plots=self.whole_plots + tuple(plot + shift for plot in later.whole_plots),
            centre=self.centre + later.centre,
        )

    def subset(self, runs: Sequence[int]) -> ScreeningDesign:
        """Return the design that consists of the runs with these indices, in this order."""
        picked = {name: tuple(getattr(self, name)[run] for run in runs) for name in _OF_RUNS}
        return replace(self, coded=self.coded[list(runs)], **picked)


_OF_RUNS = ("order", "blocks", "whole_plots", "centre")
"""Names of the fields of a design, other than ``coded``, that have an entry for each run."""


def plackett_burman(
    factors: Sequence[Factor], rng: Generator, *, blocks: int = 1, centre_points: int = 0, min_runs: int = 8
) -> ScreeningDesign:
    """Return a randomised Plackett–Burman design.

    The number of runs, without centre points, is the smallest number that pyDOE3 can build (4, 8, 12, 16, 20,
    24, 32, 40, …), that exceeds the number of factors and that is not below ``min_runs``. The columns are
    chosen greedily: first to keep the aliases of main effects with two-factor interactions small (by the sum
    of squared alias coefficients), then to keep the aliases of interactions with each other small. So a
    design of four factors in eight runs has resolution IV, and a design of four factors in sixteen runs
    contains all combinations. Whole-plot factors get the columns with the fewest combinations.

    Each of the ``blocks`` is a replicate of the whole design in a random order of its own, drawn by ``rng``,
    with ``centre_points`` centre points. Factors without a centre alternate between their levels in the
    centre points.

    Raises:
        UserError: there is no factor or no block, there are centre points although no factor has a centre, or
            the design exceeds ``_MOST_FACTORS`` or ``_MOST_RUNS``.
    """
    factors = tuple(factors)
    if not factors:
        raise UserError("a design needs at least one factor")
    _check_room(len(factors), max(blocks, 1) * (max(len(factors), min_runs) + max(centre_points, 0)))
    if blocks < 1 or centre_points < 0:
        raise UserError(f"a design of {blocks} blocks with {centre_points} centre points cannot be run")
    if centre_points and all(factor.centre is None for factor in factors):
        raise UserError("centre points need at least one factor with a centre", "set the centre points to 0")
    corners = _hadamard_columns(factors, min_runs)
    standard = np.vstack([corners, _centre_runs(factors, corners, centre_points)])
    return _run_order(factors, [standard] * blocks, len(corners), rng)


def foldover(design: ScreeningDesign, rng: Generator) -> ScreeningDesign:
    """Return a design with the low and high levels of this design exchanged.

    Both designs together separate main effects from two-factor interactions.

    The result has as many blocks as ``design``, but no centre points. The whole experiment is
    ``design.followed_by(foldover(design, rng))``.
    """
    folded = []
    for block in dict.fromkeys(design.blocks):
        runs = [run for run in range(design.n_runs) if design.blocks[run] == block and not design.centre[run]]
        runs.sort(key=lambda run: design.order[run])
        folded.append(-design.coded[runs])
    last = tuple(design.coded[-1, _whole_plot_columns(design.factors)].tolist())
    return _run_order(design.factors, folded, design.n_runs, rng, last)


def _check_room(n_factors: int, n_runs: int) -> None:
    """Raise a ``UserError`` before anything is computed if a design would take too much memory or time."""
    if n_factors > _MOST_FACTORS:
        raise UserError(
            f"a design of {n_factors} factors", f"at most {_MOST_FACTORS}; space=discover handles hundreds"
        )
    if n_runs > _MOST_RUNS:
        raise UserError(f"a design of {n_runs} runs", f"at most {_MOST_RUNS}")


def _hadamard_columns(factors: tuple[Factor, ...], min_runs: int) -> Matrix:
    """Return the columns of the smallest Plackett–Burman design for these factors, (n_runs, n_factors)."""
    from pyDOE3 import pbdesign  # The import takes half a second.

    needed = max(len(factors) + 1, min_runs)
    n_runs = next(n for n in count(4, 4) if n >= needed and _constructible(n))
    columns: Matrix = pbdesign(n_runs - 1)
    selections = [_selected_columns(columns, factors, by_fours) for by_fours in (True, False)]
    return min((columns[:, selection] for selection in selections), key=_words)


def _selected_columns(columns: Matrix, factors: tuple[Factor, ...], by_fours: bool) -> list[int]:
    """Return the index of a column for each factor, chosen greedily to keep aliases small.

    A *word* of length three is a main effect that is aliased with a two-factor interaction, a word of length
    four two interactions that are aliased with each other; the fewest words of length three have precedence.
    """
    n_runs = len(columns)
    column_of: dict[int, int] = {}  # Maps the index of a factor to the index of its column.
    # Number of words of length three and of length four that each column would add, as sums of squared alias
    # coefficients.
    threes, fours = np.zeros(n_runs - 1), np.zeros(n_runs - 1)
    for index in sorted(range(len(factors)), key=lambda i: not factors[i].whole_plot):
        used = list(column_of.values())
        free = [column for column in range(n_runs - 1) if column not in used]
        if factors[index].whole_plot:
            best = min(free, key=lambda c: (len(np.unique(columns[:, [*used, c]], axis=0)), c))
        else:
            best = min(free, key=lambda column: (*np.round([threes[column], fours[column]], 9), column))
        products = columns[:, used] * columns[:, [best]]
        threes += np.sum((columns.T @ products / n_runs) ** 2, axis=1)
        if by_fours:
            added = _pairs_gram(columns[:, used]) * np.outer(columns[:, best], columns[:, best])
            fours += np.sum(columns * (added @ columns), axis=0) / n_runs**2
        column_of[index] = best
    return [column_of[index] for index in range(len(factors))]


def _words(codes: Matrix) -> tuple[float, float]:
    """Return sums of squared alias coefficients: of main effects with interactions, and among interactions.

    References:
        Tang & Deng (1999), Minimum G2-aberration for nonregular fractional factorial designs, Annals of
        Statistics 27, 1914–1926.
    """
    pairs = _pairs_gram(codes)
    mixed, twofold = (float(np.sum(pairs * gram)) / len(codes) ** 2 for gram in (codes @ codes.T, pairs))
    return round(mixed, 6), round(twofold, 6)


def _pairs_gram(codes: Matrix) -> Matrix:
    """Return P Pᵀ, (n_runs, n_runs); the columns of P are the products of all pairs of columns of codes."""
    return np.asarray(((codes @ codes.T) ** 2 - codes.shape[1]) / 2)


def _constructible(n_runs: int) -> bool:
    """Return whether pyDOE3 can build a Hadamard matrix of this order."""
    quotients = (n_runs // base for base in _HADAMARD_BASES if n_runs % base == 0)
    return any(quotient & (quotient - 1) == 0 for quotient in quotients)


def _centre_runs(factors: tuple[Factor, ...], corners: Matrix, n_points: int) -> Matrix:
    """Return the codes of the centre points, (n_points, n_factors).

    Factors with a centre have code 0; other factors alternate between their levels. Whole-plot factors have
    only combinations of levels that the corners also contain, so that a centre point needs no additional
    reboot.
    """
    runs = np.zeros((n_points, len(factors)))
    plot_columns = _whole_plot_columns(factors)
    plots = np.unique(corners[:, plot_columns], axis=0)
    for column, factor in enumerate(factors):
        if factor.centre is None:
            runs[:, column] = [1.0 if (point + column) % 2 else -1.0 for point in range(n_points)]
    for point in range(n_points):
        runs[point, plot_columns] = plots[point % len(plots)]
    return runs


def _whole_plot_columns(factors: tuple[Factor, ...]) -> list[int]:
    return [column for column, factor in enumerate(factors) if factor.whole_plot]


def _run_order(
    factors: tuple[Factor, ...],
    standards: list[Matrix],
    n_corners: int,
    rng: Generator,
    last: tuple[float, ...] | None = None,
) -> ScreeningDesign:
    """Randomise the order of the runs in each block, keeping the runs of a whole plot next to each other.

    Within a block each combination of whole-plot levels occurs in one stretch of runs. A block starts with
    the combination with which the block before it ended, so that there is no reboot between blocks: p
    combinations in b blocks take b·(p − 1) reboots, the fewest that complete blocks allow. ``last`` contains
    the codes of the whole-plot factors in the last run of an earlier design; None means that there is no
    earlier run.
    """
    plot_columns = _whole_plot_columns(factors)
    order: list[int] = []
    blocks: list[int | str] = []
    whole_plots: list[int] = []
    plot_number = -1 if last is None else 0
    for block, standard in enumerate(standards):
        rows: dict[tuple[float, ...], list[int]] = {}
        for row in range(len(standard)):
            rows.setdefault(tuple(standard[row, plot_columns].tolist()), []).append(row)
        plots = sorted(rows)
        plots = [plots[i] for i in rng.permutation(len(plots))]
        plots.sort(key=lambda plot: plot != last)
        for plot in plots:
            plot_number += plot != last
            last = plot
            runs = [rows[plot][i] for i in rng.permutation(len(rows[plot]))]
            order += runs
            blocks += [block] * len(runs)
            whole_plots += [plot_number] * len(runs)
    coded = np.vstack([standards[int(block)][row] for block, row in zip(blocks, order, strict=True)])
    centre = tuple(row >= n_corners for row in order)
    return ScreeningDesign(factors, coded, tuple(order), tuple(blocks), tuple(whole_plots), centre)
