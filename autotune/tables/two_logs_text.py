"""Show the comparison of two benchmark logs, as a table for the terminal or as a JSON document."""

from collections import Counter
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from autotune.history.objectives import known_end
from autotune.tables.two_logs import RATE, Call, LabelDifference, TwoLogs
from autotune.views.documents import fields_of
from autotune.views.tables import empty_table
from autotune.views.text import calls_text, figure_text, ratio_text, size_text


def logs_document(logs: TwoLogs) -> dict[str, Any]:
    """Return the JSON document of ``compare LOG1 LOG2``."""

    def call(log_call: Call) -> dict[str, Any]:
        (collective, ranks, size), setting = log_call
        fields = {"collective": collective, "comm_size": ranks or None, "message_bytes": size}
        return {**fields, "setting": dict(setting)}

    return {
        "rate": RATE,
        "calls": [
            {
                **call(pair.call),
                **fields_of(pair, "first_us", "second_us", "repeats", "speedup", "p_value", "verdict"),
                "speedup_low": known_end(pair.interval[0]),
                "speedup_high": known_end(pair.interval[1]),
            }
            for pair in logs.pairs
        ],
        "only_first": [call(log_call) for log_call in logs.only_first],
        "only_second": [call(log_call) for log_call in logs.only_second],
        "differences": [
            {"collective": difference.collective, "label": difference.name, "values": difference.values}
            for difference in logs.differences
        ],
    }


def logs_table(logs: TwoLogs, names: tuple[str, str]) -> RenderableType:
    """Return a table with the times of each call in two logs, and notes about calls that only one log has.

    ``names`` are the names of the logs.
    """
    columns = ("call", "size", *names, "repeats", "speed-up (95 %)", "")
    shown = empty_table(*columns, right=["size", *names, "repeats"])
    for pair in logs.pairs:
        (collective, ranks, size), setting = pair.call
        words = [", ".join([calls_text(collective, ranks), *(f"{n}={v}" for n, v in setting)])]
        words += [size_text(size), *(figure_text(us, unit="µs") for us in (pair.first_us, pair.second_us))]
        words += [" / ".join(map(str, pair.repeats)), ratio_text(pair.speedup, pair.interval), pair.verdict]
        shown.add_row(*map(Text, words))
    counts = ", ".join(f"{n} {word}" for word, n in Counter(pair.verdict for pair in logs.pairs).items())
    notes = [f"of {len(logs.pairs)} calls in both: {counts or 'none'} (any false one: at most {RATE:.0%})"]
    unmatched = zip(names, (logs.only_first, logs.only_second), strict=True)
    notes += [f"{len(calls)} calls are in {name} alone" for name, calls in unmatched if calls]
    notes += list(dict.fromkeys(_throughout(difference, names) for difference in logs.differences))
    return Group(shown, "", *(Text(note, "dim") for note in notes))


def _throughout(difference: LabelDifference, names: tuple[str, str]) -> str:
    sides = zip(difference.values, names, strict=True)
    return f"{difference.name} differs: " + ", ".join(f"{value or 'none'} in {name}" for value, name in sides)
