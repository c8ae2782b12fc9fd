"""``compare LOG1 LOG2``: print by how much calls are faster or slower in the second of two logs."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from autotune.commands.terminal import console
from autotune.errors import UserError
from autotune.tables.two_logs import Call, TwoLogs, compared
from autotune.tables.verbs.import_ import measurements
from autotune.views.documents import json_text


def compare_logs(paths: Sequence[Path], as_json: bool, comm_size: int | None) -> None:
    """Print by how much each call of a second log is faster or slower than the same call in a first log.

    Args:
        paths: The two logs.
        as_json: Print a JSON document in place of a table.
        comm_size: Number of ranks of rows that do not contain it.

    Raises:
        UserError: there are not two logs, or they have no call in common.
        TableError: a file cannot be read, or is not a complete log or table.
    """
    if len(paths) != 2 or any(path.is_dir() for path in paths):
        raise UserError("compare takes directories of campaigns, or two logs", "compare LOG1 LOG2")
    comparison = compared(*(measurements([path], comm_size) for path in paths))
    if not comparison.pairs:
        has = [_text(calls) for calls in (comparison.only_first, comparison.only_second)]
        hint = f"{paths[0]} has {has[0]}; {paths[1]} has {has[1]}"
        raise UserError("the logs have no call in common", f"{hint}; {_why(comparison)}")
    from autotune.tables.two_logs_text import logs_document, logs_table

    if as_json:
        sys.stdout.write(json_text(logs_document(comparison)))
        return

    names = str(paths[0]), str(paths[1])
    common = os.path.commonpath([path.absolute() for path in paths])
    if names[0] != names[1]:
        names = os.path.relpath(paths[0], common), os.path.relpath(paths[1], common)
    console(width=None if sys.stdout.isatty() else 200).print(logs_table(comparison, names))


def _text(calls: Sequence[Call]) -> str:
    slots = [slot for slot, _ in calls]
    kinds = dict.fromkeys(f"{name} on {ranks or 'unknown'} ranks" for name, ranks, _ in slots)
    sizes = [size for _, _, size in slots]
    return f"{', '.join(kinds)} of {min(sizes)} to {max(sizes)} bytes" if slots else "nothing"


def _why(comparison: TwoLogs) -> str:
    """Explain it by labels without a common value, else by the number of ranks that a log may lack."""
    shared_slots = {slot for slot, _ in comparison.only_first} & {slot for slot, _ in comparison.only_second}
    sides: list[dict[str, set[str]]] = [{}, {}]
    for values, calls in zip(sides, (comparison.only_first, comparison.only_second), strict=True):
        for slot, setting in calls:
            for name, value in setting if slot in shared_slots else ():
                values.setdefault(name, set()).add(value)
    unlike = [
        f"{name} ({', '.join(sorted(sides[0][name]))} | {', '.join(sorted(sides[1][name]))})"
        for name in sorted(sides[0].keys() & sides[1].keys())
        if not sides[0][name] & sides[1][name]
    ]
    return f"they differ in {', '.join(unlike)}" if unlike else "--comm-size adds the ranks a log lacks"
