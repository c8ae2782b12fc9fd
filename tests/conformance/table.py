"""What was measured as rows of ``autotune/stacks/conformance.toml``."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import autotune.stacks
from tests.conformance.launching import FORCED, Forced, Outcome

FILE = Path(autotune.stacks.__file__).with_name("conformance.toml")

_STOPS = ("crashes", "hangs", "ends early", "error")
_NOT_COMMUTING = "product"  # How the names of operations begin that do not commute.

HEAD = """\
# Which algorithms were checked, by version, and what failed. Written by `python -m tests.conformance --write`
# (`make conformance` compares), read by `stacks/cleared.py`.
#
# Each algorithm was forced and called in the cases of `tests/conformance/program.py`, its results compared
# with values that no MPI computed. `checked`: collective → algorithms. `faults`: those that were wrong, ended
# the ranks or made them wait without end where the untouched library was right; the first such case.
# `commuting_right`: that happened with operations alone that do not commute. `untouched`: what the library
# does wrong by itself, which is no algorithm's fault. `ranks`: the numbers of ranks that were tried.
#
# A second word beside a collective is what other variables choose. Of MPICH: the algorithm of the layer for
# shared memory (`posix`) and the composition inside and between nodes, both tried also on two nodes, into
# which it divides the ranks of a machine if so set; whether the device may do it (`device`). Of Open MPI: sm
# and adapt, put before coll_tuned by their priority (`component`, and `adapt` with its algorithm).
"""


def own_faults(ranks: int, outcome: Outcome) -> dict[Forced, dict[str, str]]:
    """Faults that the untouched library does not have in the same case.

    Where that one ended or hung it was not called in all cases: then its faults stand for their kind of
    operand.
    """
    faults = outcome.faults.items()
    untouched = {(one.collective, one.nodes): its for one, its in faults if not one.algorithm}
    own = {}
    for one, its in faults:
        there = untouched.get((one.collective, one.nodes), {})
        kinds = {case.partition(",")[0] for case in there} if _stopped(there) else set()
        left = {c: t for c, t in its.items() if c not in there and c.partition(",")[0] not in kinds}
        if one.algorithm and left:
            own[one] = left
    return own


def _stopped(faults: Mapping[str, str]) -> bool:
    return any(text.startswith(_STOPS) for text in faults.values())


def rows(outcomes: Mapping[int, Outcome]) -> list[dict[str, Any]]:
    """A row for each algorithm that failed, by collective; the proof is its first case that tells most."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for ranks, outcome in outcomes.items():
        for one, its in own_faults(ranks, outcome).items():
            commuting = {c: t for c, t in its.items() if not c.startswith(_NOT_COMMUTING)}
            case, text = next(iter((commuting or its).items()))
            segments = f", segments of {one.segment_bytes} bytes" if one.segment_bytes else ""
            row = {
                "collective": one.row,
                "algorithm": one.algorithm,
                "ranks": ranks,
                "case": f"{case}{segments}{one.place}",
                "seen": " ".join(text.split())[:160],
                "commuting_right": not commuting,
            }
            before = found.get((one.row, one.algorithm))
            if before is None or (before["commuting_right"] and commuting):
                found[one.row, one.algorithm] = row
    return sorted(found.values(), key=_order)


def _order(row: Mapping[str, Any]) -> tuple[str, int, str]:
    """By what is chosen, by collective, by algorithm."""
    collective, _, choice = row["collective"].partition(" ")
    return choice, FORCED.index(collective), row.get("algorithm", "")


def untouched_rows(outcomes: Mapping[int, Outcome]) -> list[dict[str, Any]]:
    """The untouched library's own faults: the first case of each collective."""
    found: dict[str, dict[str, Any]] = {}
    for ranks, outcome in outcomes.items():
        for one, its in outcome.faults.items():
            if not one.algorithm and one.collective not in found:
                case, text = next(iter(its.items()))
                seen = " ".join(text.split())[:160]
                found[one.collective] = {
                    "collective": one.collective,
                    "ranks": ranks,
                    "case": case + one.place,
                    "seen": seen,
                }
    return list(found.values())


def entry(listed: Iterable[Forced], outcomes: Mapping[int, Outcome]) -> dict[str, Any]:
    """The entry of one version."""
    checked: dict[str, list[str]] = {}
    for one in listed:
        names = checked.setdefault(one.row, [])
        if one.algorithm not in names:
            names.append(one.algorithm)
    return {
        "ranks": sorted(outcomes),
        "checked": {row: " ".join(names) for row, names in checked.items()},
        "faults": rows(outcomes),
        "untouched": untouched_rows(outcomes),
    }


def merged(before: Mapping[str, Any] | None, measured: Mapping[str, Any]) -> dict[str, Any]:
    """An entry with what was measured now; what it said of other numbers of ranks and choices stays."""
    ranks, before = {*measured["ranks"]}, before or {}
    checked = {**before.get("checked", {}), **measured["checked"]}
    ordered = sorted(checked, key=lambda row: _order({"collective": row}))
    entry = {
        **measured,
        "ranks": sorted({*before.get("ranks", ()), *ranks}),
        "checked": {row: checked[row] for row in ordered},
    }
    for kind in ("faults", "untouched"):
        elsewhere = [
            row
            for row in before.get(kind, ())
            if row["ranks"] not in ranks or row["collective"] not in measured["checked"]
        ]
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for row in (*elsewhere, *measured[kind]):
            where = row["collective"], row.get("algorithm", "")
            if where not in rows or (rows[where].get("commuting_right") and not row["commuting_right"]):
                rows[where] = row
        entry[kind] = sorted(rows.values(), key=_order)
    return entry


def table() -> dict[str, Any]:
    """The table as it is; empty before there is one."""
    return tomllib.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def text(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """The file."""
    lines = [HEAD]
    for title, its in entries.items():
        lines += [f'["{title}"]', f"ranks = {its['ranks']}", ""]
        lines += [
            f'["{title}".checked]',
            *(
                f"{json.dumps(c) if ' ' in c else c} = {json.dumps(names)}"
                for c, names in its["checked"].items()
            ),
            "",
        ]
        for kind in ("faults", "untouched"):
            for row in its.get(kind, ()):
                lines += [f'[["{title}".{kind}]]', *(f"{n} = {json.dumps(v)}" for n, v in row.items()), ""]
    return "\n".join(lines)


def differences(title: str, measured: Mapping[str, Any], outcomes: Mapping[int, Outcome]) -> list[str]:
    """What the table says otherwise of one version, in words.

    A fault that needs more ranks than were tried is no difference.
    """
    known = table().get(title)
    if known is None:
        return [f"it has no entry for {title}"]
    before, now = ({(r["collective"], r["algorithm"]): r for r in its["faults"]} for its in (known, measured))
    lines = []
    for where, row in now.items():
        name = " ".join(where)
        if where not in before:
            lines.append(f"{name} fails and is not in it: {row['ranks']} ranks, {row['case']}: {row['seen']}")
        elif before[where]["commuting_right"] and not row["commuting_right"]:
            lines.append(f"{name} fails with operations that commute too: {row['case']}: {row['seen']}")
    for where, row in before.items():
        if where not in now and row["ranks"] in outcomes and where[0] in measured["checked"]:
            lines.append(f"{' '.join(where)} is right now: {row['ranks']} ranks, {row['case']}")
    for collective, names in measured["checked"].items():
        other = {*names.split()} ^ {*known["checked"].get(collective, "").split()}
        lines += [f"{collective} {name} is in one of both alone" for name in sorted(other)]
    return lines
