"""Show violated performance guidelines in words and as JSON values: console, report, ``compare``.

A guideline states that one call (the left side) takes no longer than others that could replace it (the right
side).
"""

from collections.abc import Sequence
from typing import Any

from autotune.recommend.guideline_test import Findings, Guideline, GuidelineKind, Timed, Violation
from autotune.recommend.guidelines import DEFAULT, EXPORTED, handed_over
from autotune.recommend.recommendation import Recommendation
from autotune.space import Space
from autotune.views.text import microseconds_text, size_text

_ROWS = 12  # Largest number of violations shown in addition to those by the exported settings.


def violation_text(violation: Violation) -> str:
    """Return a sentence that names the slower and the faster calls, and their ratio with its lower bound."""
    guideline = violation.guideline
    faster = " + ".join(
        (f"{k} × " if k > 1 else "") + _call(timed, guideline.left) for k, timed in guideline.right
    )
    slow, fast = (microseconds_text(s, unit="µs") for s in (violation.left_s, violation.right_s))
    ratio = f"{violation.ratio:.2f}× (at least {violation.low:.2f}×)"
    return f"{_call(guideline.left)} is slower than {faster}: {ratio}, {slow} against {fast}"


def concerning(
    findings: Findings, space: Space, recommendation: Recommendation | None
) -> tuple[Violation, ...]:
    """Return the violations in which the exported settings are the slower side.

    A violation is left out if the default violates the same guideline by the same ratio or more.
    """
    default = {_calls(v.guideline): v.ratio for v in findings.violations if _is_of(v, DEFAULT)}
    return tuple(
        v
        for v in findings.violations
        if handed_over(v.guideline, space, recommendation)
        and not (_is_of(v, EXPORTED) and default.get(_calls(v.guideline), 0.0) >= v.ratio)
    )


def _is_of(violation: Violation, setting: str) -> bool:
    guideline = violation.guideline
    return all(timed.setting == setting for timed in (guideline.left, *(t for _, t in guideline.right)))


def _calls(guideline: Guideline) -> tuple[object, ...]:
    return guideline.kind, guideline.left.slot, tuple((n, timed.slot) for n, timed in guideline.right)


def concerning_text(findings: Findings, space: Space, recommendation: Recommendation | None) -> str:
    """Return the worst violation by the exported settings, and how many more there are; empty if none."""
    exported = concerning(findings, space, recommendation)
    if not exported:
        return ""
    remainder = f", and {len(exported) - 1} more" if len(exported) > 1 else ""
    return f"{violation_text(exported[0])}{remainder}"


def guidelines_section(
    findings: Findings, space: Space, recommendation: Recommendation | None
) -> dict[str, Any] | None:
    """Return the report's section on violations, those by exported settings first; None if there are none."""
    exported = concerning(findings, space, recommendation)
    further = [violation for violation in findings.violations if violation not in exported]
    if not findings.violations:
        return None
    n, n_exported = len(findings.violations), len(exported)
    return {
        "headline": f"{n} of {findings.tested} violated, {n_exported} by exported settings",
        "rows": [(violation_text(v), v in exported) for v in (*exported, *further[:_ROWS])],
    }


def findings_lines(findings: Findings) -> tuple[str, ...]:
    """Return a line for each violation, and a last line with the number of tests and their error rate."""
    if not findings.tested:
        return ("no guideline can be tested: it takes two sizes, two rank counts or several collectives",)
    lines = [f"{violation_text(v)}  [{v.guideline.kind}]" for v in findings.violations]
    n = len(lines)
    return (
        *lines,
        f"{n or 'none'} of {findings.tested} guidelines violated beyond noise "
        f"(chance of any false one: at most {findings.rate:.0%})",
    )


def findings_document(findings: Findings, concerned: Sequence[Violation] | None = None) -> dict[str, Any]:
    """Return the findings as JSON values.

    ``concerned`` are the violations by exported settings; None means that no settings were exported.
    """

    def row(violation: Violation) -> dict[str, Any]:
        guideline = violation.guideline
        return {
            "kind": guideline.kind,
            "setting": guideline.left.setting,
            "slower": list(guideline.left.slot),
            "faster": [
                {"times": k, "slot": list(timed.slot), "setting": timed.setting}
                for k, timed in guideline.right
            ],
            "slower_s": violation.left_s,
            "faster_s": violation.right_s,
            "ratio": violation.ratio,
            "ratio_low": violation.low,
            "p_value": violation.p_value,
            "launches": violation.launches,
            **({} if concerned is None else {"handed_over": violation in concerned}),
        }

    rows = [row(violation) for violation in findings.violations]
    return {"tested": findings.tested, "rate": findings.rate, "violations": rows}


def _call(timed: Timed, reference: Timed | None = None) -> str:
    """Return a call in words; ranks and setting are left out where ``reference`` has the same."""
    collective, ranks, size = timed.slot
    words = collective if not size else f"{collective} of {size_text(size)}"
    if ranks and (reference is None or reference.slot[1] != ranks):
        words += f" on {ranks} ranks"
    same_setting = reference is not None and reference.setting == timed.setting
    setting = "what is exported" if timed.setting == EXPORTED else timed.setting
    return words if same_setting or not setting else f"{words} ({setting})"


ADVICE = {
    GuidelineKind.COMPOSITION: "a silent fallback, or an algorithm that is missed",
    GuidelineKind.SIZE: "a disturbed measurement, or a switch at the wrong size",
    GuidelineKind.SPLIT: "a protocol or an algorithm that begins too early",
    GuidelineKind.RANKS: "a bad choice for this number of ranks",
    GuidelineKind.ALGORITHM: "an algorithm that is missed",
}
"""Maps each kind of guideline to the usual cause of its violation."""
