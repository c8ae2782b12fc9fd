"""Values that a library refuses or cuts, judged by what it says of its own variables (``knobs``).

Tried on Open MPI 5.0.11 (``ompi_info``) and UCX 1.20.1 (``ucp_config_read``): a number is read up to its
first other character in both, Open MPI takes a word for 0 and knows its words in lower case alone, UCX knows
them in any case and wants a unit that it knows behind a size, a time or a bandwidth.
"""

import re
from collections.abc import Iterator

from autotune.errors import allowed
from autotune.lint.assignment import Assignment
from autotune.lint.finding import Finding
from autotune.stacks.knobs import Knob, KnobKind

_YES_NO = ("y", "yes", "on", "1", "n", "no", "off", "0")
"""What UCX takes for a boolean."""
_TRUE_FALSE = ("t", "true", "yes", "y", "enabled", "f", "false", "no", "n", "disabled")
"""What Open MPI takes for a boolean."""
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
"""What UCX takes for a quantity, and how it is written."""
_SUFFIX = re.compile(rf"{_WHOLE.pattern}[kmg]?b?", re.IGNORECASE)
"""What Open MPI takes for a number."""


def values(a: Assignment, knob: Knob) -> Iterator[Finding]:
    """What the library does with a value other than taking it as it is."""
    if knob.name.startswith("UCX_"):
        yield from _of_ucx(a, knob)
    elif knob.layer == "openmpi":
        yield from _of_openmpi(a, knob)


def _of_ucx(a: Assignment, knob: Knob) -> Iterator[Finding]:
    parts = [a.value]
    if knob.keys or (knob.kind in _UNITS and ":" in a.value):
        parts = [item.rpartition(":")[2] for item in a.value.split(",")]
    for part in parts:
        words = {word.lower() for word in knob.allowed} | ({"inf", "auto"} if knob.kind in _UNITS else set())
        if knob.kind in (KnobKind.INTEGER, KnobKind.REAL):
            words |= {"inf", "auto"}
        if words & {"yes", "on"}:  # one of these, or a third word
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
                form, said = _UNITS[knob.kind]
                hint = "" if form.fullmatch(part) else f"{said} {', '.join(knob.allowed) or 'inf'}"
            case KnobKind.INTEGER | KnobKind.REAL:
                form = _WHOLE if knob.kind is KnobKind.INTEGER else _REAL
                begins = form.match(part)
                if begins and begins[0] != part:
                    yield a.finding(f"{a.name} is cut to {begins[0]}: {part!r} is no number", begins[0])
                    continue
                hint = "" if begins else "a number"
        if hint:
            yield a.finding(f"{a.name} = {a.value}: UCX {knob.version} refuses the value", hint)


def _of_openmpi(a: Assignment, knob: Knob) -> Iterator[Finding]:
    if knob.kind in (KnobKind.BOOLEAN, KnobKind.ENUMERATOR) and knob.allowed:
        words = {*knob.allowed, *(_TRUE_FALSE if "true" in knob.allowed else ())}
        if a.value not in words and not re.fullmatch(r"-?\d+", a.value):
            what = "the framework does not open and MPI_Init aborts"
            effect = what if knob.name.endswith("_base_verbose") else "the default holds"
            yield a.finding(
                f"{a.name} = {a.value} is refused with a message: {effect}", allowed(a.value, knob.allowed)
            )
    elif knob.kind in (KnobKind.INTEGER, KnobKind.BYTES, KnobKind.REAL) and a.value:
        form = _REAL if knob.kind is KnobKind.REAL else _SUFFIX
        if not form.fullmatch(a.value):
            begins = form.match(a.value)
            taken = begins[0] if begins else "0"
            yield a.finding(f"{a.name} = {a.value} is silently taken for {taken}", "a whole number")
