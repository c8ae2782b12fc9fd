"""Find values that a library refuses or misreads, by comparison with its declaration of the variable.

``doctor --knobs`` lists the declarations.

The behaviour was observed on the libraries. Open MPI 5.0.11 (``ompi_info``) and UCX 1.20.1
(``ucp_config_read``) read a number up to the first character that does not belong to it. Open MPI reads a
word as 0 where it expects a number, and accepts words for values in lower case only. UCX accepts words in any
case, and requires a known unit after a size, a time or a bandwidth. MPICH 5.0.2 aborts unless a value is a
whole number or a word that it knows. libfabric 2.5 reads numbers as C does. Intel MPI 2021.18 prints which
numbers of algorithms it ignores.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping

from autotune.collectives import COLLECTIVES
from autotune.errors import allowed
from autotune.lint.assignment import Assignment
from autotune.lint.finding import Finding, likely_name
from autotune.stacks.knobs import Knob, KnobKind

_YES_NO = ("y", "yes", "on", "1", "n", "no", "off", "0")
"""Words for booleans that UCX accepts."""
_TRUE_FALSE = ("t", "true", "yes", "y", "enabled", "f", "false", "no", "n", "disabled")
"""Words for booleans that Open MPI accepts; those for true come first."""
_WHOLE = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|\d+)")
_REAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_UNITS = {
    KnobKind.BYTES: (re.compile(r"-?\d+(?:[kmgtpe]?b?)", re.IGNORECASE), "bytes, with k, m, g, kb, …; or"),
    KnobKind.DURATION: (re.compile(r"[\d.]+(?:s|ms|us|ns|m)?"), "a number with s, ms, us, ns or m; or"),
    KnobKind.BANDWIDTH: (
        re.compile(r"[\d.]+[kmgtp]?(?:b/s|bps|bs)", re.IGNORECASE),
        "a number with MBs, MB/s, MBps, Gbps, …; or",
    ),
}
"""Maps each kind of quantity in UCX to (pattern of its values, beginning of a hint on how to write them)."""
_MEANS_0 = (*_TRUE_FALSE[5:], "off")
"""Words that people write for 0; Open MPI reads any word as 0 where it expects a number."""
_SUFFIX = re.compile(rf"{_WHOLE.pattern}[kmg]?b?", re.IGNORECASE)
"""Pattern of numbers in Open MPI."""


_BOOL_OF_LIBFABRIC = ("1", "yes", "true", "on", "0", "no", "false", "off")
"""Words for booleans that libfabric accepts, in upper case too."""
_BOOL_OF_MPICH = frozenset({*_BOOL_OF_LIBFABRIC, *map(str.upper, _BOOL_OF_LIBFABRIC)})
"""Words for booleans that MPICH accepts."""


def values(a: Assignment, knob: Knob) -> Iterator[Finding]:
    """Yield findings on a value that the library of its variable refuses or misreads."""
    if judge := _JUDGES.get(knob.layer):
        yield from judge(a, knob)


def _is_wrong(value: str, knob: Knob) -> bool:
    """Whether every version of the library is certain to refuse a value that the installed version refuses.

    Another version may accept further words, but it does not accept misspellings of known words.
    """
    return knob.kind is not KnobKind.ENUMERATOR or bool(likely_name(value.lower(), knob.allowed))


def _of_ucx(a: Assignment, knob: Knob) -> Iterator[Finding]:
    parts = [a.value]
    if knob.keys or (knob.kind in _UNITS and ":" in a.value):
        parts = [item.rpartition(":")[2] for item in a.value.split(",")]
    for part in parts:
        words = {word.lower() for word in knob.allowed} | ({"inf", "auto"} if knob.kind in _UNITS else set())
        if knob.kind in (KnobKind.INTEGER, KnobKind.REAL):
            words |= {"inf", "auto"}
        if words & {"yes", "on"}:  # a boolean with a third word, such as ``try``
            words |= {*_YES_NO, "maybe"}
        if part.lower() in words:
            continue
        hint = ""
        match knob.kind:
            case KnobKind.BOOLEAN:
                hint = "" if part.lower() in _YES_NO else "y or n"
            case KnobKind.ENUMERATOR:
                hint = allowed(part, knob.allowed)
            case KnobKind.BYTES | KnobKind.DURATION | KnobKind.BANDWIDTH:
                form, units = _UNITS[knob.kind]
                hint = "" if form.fullmatch(part) else f"{units} {', '.join(knob.allowed) or 'inf'}"
            case KnobKind.INTEGER | KnobKind.REAL:
                form = _WHOLE if knob.kind is KnobKind.INTEGER else _REAL
                begins = form.match(part)
                if begins and begins[0] != part:
                    yield a.finding(
                        "MPI603", f"{a.name} is cut to {begins[0]}: {part!r} is no number", begins[0]
                    )
                    continue
                hint = "" if begins else "a number"
        if hint:
            effect = f"{a.name} = {a.value}: UCX {knob.version} refuses the value"
            yield a.finding("MPI602", effect, hint, sure=_is_wrong(part, knob))


def _of_openmpi(a: Assignment, knob: Knob) -> Iterator[Finding]:
    if knob.kind in (KnobKind.BOOLEAN, KnobKind.ENUMERATOR) and knob.allowed:
        words = {*knob.allowed, *(_TRUE_FALSE if "true" in knob.allowed else ())}
        if a.value not in words and not re.fullmatch(r"-?\d+", a.value):
            abort = "the framework does not open and MPI_Init aborts"
            effect = abort if knob.name.endswith("_base_verbose") else "the default holds"
            yield a.finding(
                "MPI311",
                f"{a.name} = {a.value} is refused with a message: {effect}",
                allowed(a.value, knob.allowed),
            )
    elif knob.kind in (KnobKind.INTEGER, KnobKind.BYTES, KnobKind.REAL) and a.value:
        form = _REAL if knob.kind is KnobKind.REAL else _SUFFIX
        if not form.fullmatch(a.value):
            begins = form.match(a.value)
            number = begins[0] if begins else "0"
            if a.value.lower() not in _MEANS_0:
                yield a.finding(
                    "MPI312", f"{a.name} = {a.value} is silently taken for {number}", "a whole number"
                )


def _of_mpich(a: Assignment, knob: Knob) -> Iterator[Finding]:
    if knob.kind is KnobKind.ENUMERATOR:
        words: Collection[str] = (*knob.allowed, *(("ccl",) if "INTRA" in a.name else ()))
        hint = "" if a.value in words else allowed(a.value, knob.allowed)
    elif knob.kind in (KnobKind.BOOLEAN, KnobKind.INTEGER):
        hint = "" if re.fullmatch(r"\s*-?\d+\s*", a.value) or a.value in _BOOL_OF_MPICH else "a whole number"
    else:
        return
    if hint:
        effect = f"{a.name} = {a.value}: MPICH {knob.version} refuses it, and MPI_Init aborts"
        yield a.finding("MPI703", effect, hint, sure=_is_wrong(a.value, knob))


def _of_libfabric(a: Assignment, knob: Knob) -> Iterator[Finding]:
    library = f"libfabric {knob.version}"
    if knob.kind is KnobKind.BOOLEAN and a.value.lower() not in _BOOL_OF_LIBFABRIC:
        yield a.finding(
            "MPI703", f"{a.name} = {a.value} is no boolean of {library}: the default holds", "0 or 1"
        )
    elif knob.kind is KnobKind.ENUMERATOR and a.value.lower() not in knob.allowed:
        hint = allowed(a.value, knob.allowed)
        yield a.finding(
            "MPI703", f"{library} knows no {a.name} = {a.value}", hint, sure=_is_wrong(a.value, knob)
        )
    elif knob.kind is KnobKind.LIST:
        sign = ";" if a.name == "FI_HMEM" else r"[,;]"
        parts = [part.partition(":")[0].lower() for part in re.split(sign, a.value.lstrip("^")) if part]
        for part in (part for part in parts if part not in knob.allowed):
            close = "names stand between semicolons" if "," in part else likely_name(part, knob.allowed)
            if close:
                hint = close if " " in close else f"did you mean {close}?"
                yield a.finding("MPI704", f"{a.name}: {library} knows no {part!r}, and leaves it out", hint)
    elif knob.kind in (KnobKind.INTEGER, KnobKind.BYTES) and not _WHOLE.fullmatch(a.value.strip() or "0"):
        begins = _WHOLE.match(a.value)
        number = begins[0] if begins else "0"
        yield a.finding(
            "MPI704", f"{a.name} = {a.value} is silently taken for {number}", "a whole number without a unit"
        )


def _of_intel(a: Assignment, knob: Knob) -> Iterator[Finding]:
    """Yield findings on numbers of algorithms in a value ``ID:LOW-HIGH;…`` of ``I_MPI_ADJUST_*``."""
    if not knob.allowed:
        return
    names = COLLECTIVES[c].intel if (c := a.name.removeprefix("I_MPI_ADJUST_").lower()) in COLLECTIVES else ()
    documented = ", ".join(f"{i} {name}" for i, name in enumerate(names, 1))
    for part in a.value.split(";"):
        number = part.partition(":")[0].partition("@")[0].strip()
        if number and not number.isdecimal():
            effect = f"{a.name} = {a.value}: Intel MPI says that it ignores the value"
            yield a.finding(
                "MPI706", effect, f"numbers, not names: {documented}" if names else "numbers, not names"
            )
            return
        if number and int(number) > int(knob.allowed[0]):
            effect = (
                f"Intel MPI {knob.version} has no {c} algorithm {number}: it says that it ignores the value"
            )
            yield a.finding(
                "MPI706", effect, f"documented: {documented}" if names else f"at most {knob.allowed[0]}"
            )
            return


_JUDGES: Mapping[str, Callable[[Assignment, Knob], Iterator[Finding]]] = {
    "ucx": _of_ucx,
    "openmpi": _of_openmpi,
    "mpich": _of_mpich,
    "libfabric": _of_libfabric,
    "intelmpi": _of_intel,
}
"""Maps each library to the function that checks a value of one of its variables."""
