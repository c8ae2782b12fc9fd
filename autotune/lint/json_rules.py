"""Check JSON rules files of ``coll_tuned`` by reading them as Open MPI 6 does.

Open MPI uses the first entry whose range contains the communicator size, and in that entry the first rule
whose range contains the message size. If there is no such rule, Open MPI chooses the algorithm itself. Its
reader skips unknown keys, and ignores the whole file if a value that must be a number is not a number; it
prints no message in either case. (Source: ``coll_tuned_dynamic_file.c`` of v6.0.x, August 2026. The schema
that is published with it contains names of two collectives that the reader refuses.)
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from autotune.lint.finding import Finding
from autotune.stacks import coll_tuned
from autotune.stacks.classic_rules import IGNORED

Problem = tuple[str, str, str]
"""A mistake in a rules file: (code, what Open MPI does with it, remedy)."""

_LAST_INT = 2**31 - 1  # Largest number of ranks that Open MPI's reader can store.
_INF = 2**63 - 1  # The number that Open MPI's reader uses for "inf".
_SIZE = ("msg_size_min", "msg_size_max")
_RANKS = ("comm_size_min", "comm_size_max")
_RULE = {*_SIZE, "alg", "faninout", "seg_size", "reqs"}
_ENTRY = {*_RANKS, "comm_rank_distribution", "rules"}
_PLACES = ("any", "one-per-node", "single-node")
_NEIGHBORS = tuple(f"neighbor_all{name}" for name in ("gather", "gatherv", "toall", "toallv", "toallw"))


class _Ignored(Exception):  # noqa: N818 - ends reading where Open MPI does
    """Raised at the place where Open MPI would stop reading; the arguments are an effect and a remedy."""


def rules_file(path: PurePath, text: str, version: tuple[int, int]) -> list[Finding]:
    """Return the findings in a rules file in JSON."""
    if version < (6, 0):
        effect = f"Open MPI {version[0]}.{version[1]} reads no JSON: {IGNORED}"
        return [Finding(path, 1, "MPI115", effect, "write the classic format: export --format coll_tuned")]
    try:
        document = _parsed(text)
    except ValueError as exc:
        line = getattr(exc, "lineno", 1)
        return [Finding(path, line, "MPI116", f"no JSON ({exc}): {IGNORED}", "correct it")]
    collectives = document.get("collectives") if isinstance(document, dict) else None
    if not isinstance(collectives, dict):
        return [
            Finding(
                path,
                1,
                "MPI116",
                f"no object 'collectives': {IGNORED}",
                "see export --format coll_tuned_json",
            )
        ]
    findings: list[Finding] = []
    for name, entries in collectives.items():
        line = 1 + text[: text.find(f'"{name}"', text.find('"collectives"'))].count("\n")
        problems = _until_ignored(_collective(str(name), entries, version))
        findings += [Finding(path, line, *problem) for problem in problems]
    return findings


def _parsed(text: str) -> Any:
    """Return the document in a JSON text, even if there are commas before closing brackets.

    Open MPI's reader allows such commas, and its own example contains some.

    Raises:
        ValueError: the text is no JSON even without such commas.
    """
    try:
        return json.loads(text)
    except ValueError:
        strings_kept = r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])'
        return json.loads(re.sub(strings_kept, lambda match: match[1] or "", text))


def _until_ignored(problems: Iterator[Problem]) -> Iterator[Problem]:
    try:
        yield from problems
    except _Ignored as exc:
        effect, remedy = exc.args
        yield "MPI116", f"{effect}: {IGNORED}", remedy


def _collective(name: str, entries: Any, version: tuple[int, int]) -> Iterator[Problem]:
    if name not in coll_tuned.COLLECTIVE_IDS and name not in _NEIGHBORS:
        spellings = [candidate for candidate in coll_tuned.ALGORITHMS if candidate.replace("_", "") == name]
        raise _Ignored(f"no collective {name!r}", f"write {spellings[0]}" if spellings else "e.g. allreduce")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise _Ignored(f"{name} is no list of entries", "[{'comm_size_min': …, 'rules': […]}, …]")
    if entries and name not in coll_tuned.ALGORITHMS:
        yield (
            "MPI104",
            f"coll_tuned has no algorithms for {name}, and its reader crashes where it looks one up",
            "leave it out",
        )
        return
    earlier: list[Mapping[str, Any]] = []
    for number, entry in enumerate(entries, start=1):
        place_text = f"entry {number} of {name}"
        ranks = _range(entry, _RANKS, place_text, _LAST_INT)
        place = entry.get("comm_rank_distribution", "any")
        rules = entry.get("rules")
        if not isinstance(place, str):
            raise _Ignored(f"{place_text}: comm_rank_distribution is no word", f"write {', '.join(_PLACES)}")
        if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
            raise _Ignored(f"{place_text} has no list of rules", "'rules': [{'alg': …}, …]")
        if place not in _PLACES:
            yield "MPI117", f"{place_text}: {place!r} is taken for 'any'", f"write {', '.join(_PLACES)}"
            place = "any"
        yield from _unknown(entry, _ENTRY, place_text)
        if not _reached(
            ranks, [other_entry["ranks"] for other_entry in earlier if other_entry["place"] in ("any", place)]
        ):
            wraps = ranks[1] < 0
            yield (
                "MPI106",
                f"{place_text} is never used: no size of a communicator is left for it",
                "its upper end wraps round: leave comm_size_max out" if wraps else _first(_RANKS),
            )
        earlier.append({"ranks": ranks, "place": place})
        yield from _rules(name, place_text, rules, ranks, version)


def _rules(
    name: str,
    entry_text: str,
    rules: Sequence[dict[str, Any]],
    ranks: tuple[int, int],
    version: tuple[int, int],
) -> Iterator[Problem]:
    """Yield the problems with the rules of one entry.

    Args:
        name: The collective.
        entry_text: Name of the entry in messages.
        rules: The rules of the entry.
        ranks: Smallest and largest number of ranks that the entry applies to.
        version: Open MPI's (major, minor).
    """
    names = [
        coll_tuned.enumerator(name, i, version) for i, _ in enumerate(coll_tuned.algorithms(name, version))
    ]
    remedy = "known: " + ", ".join(names)
    earlier: list[tuple[int, int]] = []
    algorithms: set[str] = set()
    for number, rule in enumerate(rules, start=1):
        at = f"rule {number} of {entry_text}"
        sizes = _range(rule, _SIZE, at, _INF)
        segment, fanout = (_integer(rule, key, at, 0) for key in ("seg_size", "faninout"))
        _integer(rule, "reqs", at, 0)
        yield from _unknown(rule, _RULE, at)
        algorithm = rule.get("alg")
        if isinstance(algorithm, bool) or not isinstance(algorithm, int | str):
            yield "MPI113", f"{at} names no 'alg': the stack decides there", remedy
            algorithm = 0
        if isinstance(algorithm, int) and 0 <= algorithm < len(names):
            algorithm = names[algorithm]
        if algorithm not in names:
            yield "MPI113", f"{name} has no algorithm {algorithm!r}: {at} is silently disabled", remedy
            continue
        if not _reached(sizes, earlier):
            yield "MPI106", f"{at} is never used: no message size is left for it", _first(_SIZE)
        earlier.append(sizes)
        algorithms.add(str(algorithm))
        plain = coll_tuned.algorithms(name, version)[names.index(str(algorithm))]
        if plain == "chain" and not fanout:
            yield (
                "MPI114",
                f"{at}: a chain with fan-out 0 is a pipeline, not the chain that is forced (fan-out 4)",
                f"write 'faninout': {coll_tuned.CHAIN_FANOUT}",
            )
        if plain == coll_tuned.PAIRS_ONLY and ranks[1] > 2:
            yield (
                "MPI107",
                f"{at}: two_proc is also used by communicators of more than 2 ranks, where it fails with "
                "MPI_ERR_UNSUPPORTED_OPERATION",
                "write 'comm_size_max': 2",
            )
        if segment and plain not in coll_tuned.SEGMENTED.get(name, ()):
            effect = f"{at}: {algorithm} of {name} has no segments: {segment} is ignored"
            yield "MPI111", effect, "leave seg_size out"
    if len(algorithms) > 1 and name in coll_tuned.ONE_ROW:
        yield "MPI112", coll_tuned.one_row(name), "write a single rule without sizes"


def _range(document: Mapping[str, Any], keys: Sequence[str], place: str, largest: int) -> tuple[int, int]:
    """Return the smallest and the largest value that an entry or a rule applies to.

    Args:
        document: The entry or the rule.
        keys: Keys of the lower and the upper bound.
        place: Name of the entry or rule in messages.
        largest: The upper bound if none is given.

    Raises:
        _Ignored: one of the bounds is no number.
    """
    low, high = (
        _integer(document, key, place, default) for key, default in zip(keys, (0, largest), strict=True)
    )
    # Open MPI stores communicator sizes in 32 bits, so that "inf" wraps round to -1.
    return (low, high) if largest == _INF else (low, high if high <= largest else -1)


def _integer(document: Mapping[str, Any], key: str, place: str, default: int) -> int:
    value = document.get(key, default)
    if isinstance(value, str) and value.startswith(("inf", "Inf", "INF")):
        return _INF
    if isinstance(value, bool) or not isinstance(value, int):
        raise _Ignored(f"{place}: {key} is {value!r}, no whole number", 'write bytes or ranks, or "inf"')
    return value


def _reached(bounds: tuple[int, int], earlier: Sequence[tuple[int, int]]) -> bool:
    """Whether some value between the two ``bounds`` is outside of all ``earlier`` bounds."""
    low, high = bounds
    for first, last in sorted(earlier):
        if first <= low <= last:
            low = last + 1
    return low <= high


def _unknown(document: Mapping[str, Any], keys: set[str], place: str) -> Iterator[Problem]:
    for key in document:
        if key not in keys:
            correct_key = "seg_size" if key == "segsize" else ""
            remedy = f"write {correct_key}" if correct_key else f"known: {', '.join(sorted(keys))}"
            yield "MPI117", f"{place}: {key!r} is skipped", remedy


def _first(keys: Sequence[str]) -> str:
    return f"the first that fits is taken: correct {' and '.join(keys)}, or the order"
