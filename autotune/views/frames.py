"""Show the measurements as tables, for pandas, spreadsheets and other readers of CSV or Parquet.

Place in the flow of ``autotune/__init__.py``: after step 8. Only this module uses pandas, and writes CSV
without it. A row of the history is one estimate of a call's duration: for one trial (launch), collective,
communicator size, message size and choice of the parameters that can vary from call to call. A launch that
measured nothing has one row, so that tables also show failures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, TypeAlias

from autotune.campaign.costs import Share
from autotune.errors import needing
from autotune.history.benchmark_row import BenchmarkRow
from autotune.history.objectives import ratio_of
from autotune.history.trial import Cell, Estimate, History, Observation, Phase, Status
from autotune.recommend.recommendation import Recommendation
from autotune.recommend.summary import size_rows
from autotune.screening import Effects
from autotune.space import Point
from autotune.space.parameter import worded
from autotune.views.documents import csv_text
from autotune.views.launch_line import changes_of

if TYPE_CHECKING:
    import pandas as pd

Frame: TypeAlias = "pd.DataFrame"  # A table, for modules that only pass it on.

FORMATS = ("csv", "parquet")  # File formats of a table.

_TRIAL = {"trial": "Int64", "phase": "string", "subject": "string", "status": "string", "reason": "string"}
_SLOT = {"collective": "string", "comm_size": "Int64", "message_bytes": "Int64"}
_FIGURES = dict.fromkeys(("median_us", "sem_us", "low_us", "high_us"), "float64")
_FIGURES |= dict.fromkeys(("n", "outliers"), "Int64")
_EXTRA = {"ranks_min_s": "ranks_min_us", "ranks_avg_s": "ranks_avg_us", "other_loop_s": "other_loop_us"}
_IMPORTED = {
    "source": "string",
    "line": "Int64",
    **dict.fromkeys(("benchmark", "version", "collective"), "string"),
    **dict.fromkeys(("comm_size", "message_bytes"), "Int64"),
    **dict.fromkeys(("latency_us", "min_us", "max_us"), "Float64"),
    "iterations": "Int64",
    "bandwidth_MBps": "Float64",
}
_EFFECTS = {
    **dict.fromkeys(("objective", "factor", "low", "high"), "string"),
    **dict.fromkeys(("effect", "std_err", "effect_low", "effect_high"), "float64"),
    "scale": "string",
    **dict.fromkeys(("ratio", "p_value", "contribution"), "float64"),
    "active": "bool",
}
_GAINS = dict.fromkeys(
    (
        *("tuned_us", "tuned_sem_us", "default_us", "default_sem_us"),
        *("speedup", "speedup_low", "speedup_high"),
        *("other_loop", "other_loop_low", "other_loop_high"),
    ),
    "float64",
)
_PLAN = {"phase": "string", **dict.fromkeys(("launches", "most"), "int64")}
_PLAN |= dict.fromkeys(("node_hours", "node_hours_most"), "float64")
_US = 1e6
_DECIMALS = 6
"""Number of decimals of a time in µs. No clock resolves a picosecond, and rounding avoids figures such as
2.8000000000000003."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with a name and a pandas type for each column; a value of None is missing."""

    kinds: Mapping[str, str]
    rows: Sequence[Sequence[Any]]

    @property
    def frame(self) -> pd.DataFrame:
        """Return the table as a data frame.

        Raises:
            UserError: pandas is not installed.
        """
        rows = [
            [worded(v) if kind == "string" and v is not None else v for v, kind in self._typed(row)]
            for row in self.rows
        ]
        return _frame(rows, self.kinds)

    def written(self, format: str) -> bytes:  # noqa: A002 - the option's name
        """Return the table as CSV or Parquet (one of ``FORMATS``).

        Raises:
            UserError: the format is Parquet, and pandas is not installed.
        """
        if format == "csv":
            rows = (
                {name: _TEXT[kind](v) for name, (v, kind) in zip(self.kinds, self._typed(row), strict=True)}
                for row in self.rows
            )
            return csv_text(rows, list(self.kinds)).encode()
        buffer = BytesIO()
        self.frame.to_parquet(buffer, index=False)
        return buffer.getvalue()

    def _typed(self, row: Sequence[Any]) -> Iterable[tuple[Any, str]]:
        return zip(row, self.kinds.values(), strict=True)


def _as_float(value: Any) -> str:
    return "" if value is None or math.isnan(value) else repr(float(value))


_TEXT: Mapping[str, Callable[[Any], Any]] = {
    "Int64": lambda value: "" if value is None else int(value),
    "float64": _as_float,
    "Float64": _as_float,
    "boolean": lambda value: "" if value is None else bool(value),
    "string": lambda value: "" if value is None else worded(value),
}
"""Maps the type of a column to the function that writes its values into CSV, as pandas writes them."""


def history_frame(history: History, unset: Point | None = None) -> pd.DataFrame:
    """Return ``history_table`` as a data frame."""
    return history_table(history, unset).frame


def history_table(history: History, unset: Point | None = None) -> Table:
    """Return a row for each estimate of each trial (launch), in the order of the launches.

    Columns, always in this order: ``trial``, ``phase``, ``subject``, ``status``, ``reason``; the job-wide
    parameters by name; ``collective``, ``comm_size``, ``message_bytes``; the call-level parameters by name;
    ``median_us``, ``sem_us``, ``low_us``, ``high_us``, ``n``, ``outliers``; ``ranks_min_us`` and
    ``ranks_avg_us`` if calls were timed back to back; ``other_loop_us`` if times were also measured in the
    other kind of timing loop. A parameter that has the name of one of these columns is called
    ``parameter.<name>``.

    ``status`` and ``reason`` describe the launch, or the row's estimate if this is not usable. A value is
    missing if the parameter was not active or was left to the MPI. Columns of parameters have the type
    ``Int64``, ``boolean`` or ``Float64`` if all their values are of this kind, else ``string``. If ``unset``
    (the MPI's own values) is given, a column ``set`` after ``reason`` lists what a launch changed, and a
    job-wide parameter has a column only if a launch outside of the discovery changed it.
    """
    points = {o.trial.point for o in history if unset is None or o.trial.phase is not Phase.DISCOVERY}
    job = sorted({n for p in points for n, v in p.items() if unset is None or unset.get(n) != v})
    call = sorted({name for o in history for e in o.estimates for name in e.cell.choice} - set(job))
    measured = {name for o in history for e in o.estimates for name in e.extra}
    extra = {name: column for name, column in _EXTRA.items() if name in measured}
    rows = [
        [*row[: len(_TRIAL)], *_set(observation, unset), *row[len(_TRIAL) :]]
        for observation in history
        for row in _rows(observation, job, call, list(extra))
    ]
    kinds = {
        **_TRIAL,
        **({} if unset is None else {"set": "string"}),
        **_kinds(job, [o.trial.point for o in history]),
        **_SLOT,
        **_kinds(call, [e.cell.choice for o in history for e in o.estimates]),
        **_FIGURES,
        **dict.fromkeys(extra.values(), "float64"),
    }
    return Table(kinds, rows)


def _set(observation: Observation, unset: Point | None) -> tuple[str, ...]:
    """Return what a launch changed, in words, as the only member; no member without ``unset``."""
    return () if unset is None else (", ".join(changes_of(observation.trial, unset)),)


def measurement_table(measurements: Iterable[BenchmarkRow]) -> Table:
    """Return a row for each measurement that was imported from the output of a benchmark, in the given order.

    Columns: the fields of ``BenchmarkRow`` up to ``bandwidth_MBps``, then a column for each label. A label
    that has the name of a field is called ``label.<name>``. A value that the benchmark did not print is
    missing.
    """
    listed = list(measurements)
    labels = list(dict.fromkeys(name for m in listed for name, _ in m.labels))
    fields = [[getattr(m, name) for name in _IMPORTED] for m in listed]
    rows = [[*values, *map(dict(m.labels).get, labels)] for values, m in zip(fields, listed, strict=True)]
    return Table(
        _IMPORTED | {f"label.{name}" if name in _IMPORTED else name: "string" for name in labels}, rows
    )


def effects_frame(effects: Iterable[Effects]) -> pd.DataFrame:
    """Return a row for each factor and objective of a screening, in the design's order.

    Columns: ``objective``, ``factor``, ``low``, ``high``; ``effect`` with ``std_err``, ``effect_low`` and
    ``effect_high`` (95 %), on ``scale`` (``log`` means a difference of logarithms); ``ratio``, the value at
    high over the value at low, only on log scale; ``p_value``; ``contribution`` in per cent; and ``active``,
    which says whether the effect is significant.
    """
    rows = [
        [
            *(analysis.response, e.factor, str(e.low), str(e.high), e.effect, e.std_err, *e.interval()),
            *(analysis.scale, ratio_of(e.effect) if analysis.scale == "log" else None),
            *(e.p_value, e.contribution, e.active),
        ]
        for analysis in effects
        for e in analysis.effects
    ]
    return _frame(rows, _EFFECTS)


def gains_frame(recommendation: Recommendation | None) -> pd.DataFrame:
    """Return a row for each measured message size of a recommendation; no rows for None.

    Columns: ``collective``, ``comm_size``, ``message_bytes``, the per-size parameters by name, ``tuned_us``,
    ``tuned_sem_us``, ``default_us``, ``default_sem_us``, ``speedup`` with ``speedup_low`` and
    ``speedup_high`` (95 %), and ``other_loop`` with its limits: the speed-up in the other kind of timing
    loop, which is missing if it was not measured.
    """
    rows = size_rows(recommendation) if recommendation else ()
    names = list(dict.fromkeys(name for row in rows for name in row.choice))
    kinds = {**_SLOT, **_kinds(names, [row.choice for row in rows]), **_GAINS}
    values = [
        [*row.gain.slot, *(row.choice.get(name) for name in names)]
        + [round(s * _US, _DECIMALS) for s in (row.gain.tuned_s, row.gain.tuned_sem_s)]
        + [round(s * _US, _DECIMALS) for s in (row.gain.default_s, row.gain.default_sem_s)]
        + [row.gain.ratio, *row.gain.interval, *(row.gain.other_loop or (None, None, None))]
        for row in rows
    ]
    return _frame(values, kinds)


def plan_frame(phases: Iterable[Share], nodes: int, timeout_s: float) -> pd.DataFrame:
    """Return a row for each phase: planned launches, largest number of launches, and node-hours of both.

    ``node_hours`` counts only the time in which launches measure; ``node_hours_most`` is reached if ``most``
    launches are made and each lasts ``timeout_s``.
    """
    hours = nodes / 3600
    rows = [
        [p.phase, p.launches, p.most, p.launches * p.launch_s * hours, p.most * timeout_s * hours]
        for p in phases
    ]
    return _frame(rows, _PLAN)


def _frame(rows: Sequence[Sequence[Any]], kinds: Mapping[str, str]) -> pd.DataFrame:
    with needing("tune", "a data frame"):
        import pandas as pd
    return pd.DataFrame(rows, columns=list(kinds), dtype=object).astype(dict(kinds))


def _rows(
    observation: Observation, job: Sequence[str], call: Sequence[str], extra: Sequence[str]
) -> Iterable[list[object]]:
    trial = observation.trial
    values = [trial.point.get(name) for name in job]
    for estimate in observation.estimates or (None,):
        status, reason = observation.status, observation.reason
        if estimate is not None and estimate.status is not Status.OK:
            status, reason = estimate.status, estimate.reason or reason
        head = [trial.number, str(trial.phase), str(trial.subject), str(status), reason or None]
        yield [*head, *values, *_measured(estimate, call, extra)]


def _measured(estimate: Estimate | None, call: Sequence[str], extra: Sequence[str]) -> list[object]:
    if estimate is None:
        return [None] * (len(_SLOT) + len(call) + len(_FIGURES) + len(extra))
    cell: Cell = estimate.cell
    seconds = (estimate.median_s, estimate.sem_s, estimate.low_s, estimate.high_s)
    return [
        *(cell.collective, cell.comm_size, cell.message_bytes),
        *(cell.choice.get(name) for name in call),
        *(round(s * _US, _DECIMALS) for s in seconds),
        *(estimate.n, estimate.outliers),
        *(round(estimate.extra[name] * _US, _DECIMALS) if name in estimate.extra else None for name in extra),
    ]


def _kinds(names: Iterable[str], points: Sequence[Point]) -> dict[str, str]:
    return {
        f"parameter.{name}" if name in {*_TRIAL, *_SLOT, *_FIGURES} else name: _kind(
            {type(point[name]) for point in points if name in point}
        )
        for name in names
    }


def _kind(types: set[type]) -> str:
    if types in ({bool}, {int}):
        return "boolean" if types == {bool} else "Int64"
    return "Float64" if types and types <= {int, float} else "string"
