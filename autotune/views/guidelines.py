"""Violated performance guidelines, in words and as JSON values (console, page and ``guidelines``)."""

from collections.abc import Sequence
from typing import Any

from autotune.recommend.guideline_test import Findings, Guideline, GuidelineKind, Timed, Violation
from autotune.recommend.guidelines import DEFAULT, EXPORTED, handed_over
from autotune.recommend.recommendation import Recommendation
from autotune.space import Space
from autotune.views.text import microseconds_text, size_text

_ROWS = 12  # Violations beside those of the exported settings: so many are shown, the worst.


def violation_text(violation: Violation) -> str:
    """The slower and the faster side, and the ratio with the lower end of its interval."""
    guideline = violation.guideline
    faster = " + ".join(
        (f"{k} × " if k > 1 else "") + _call(timed, guideline.left) for k, timed in guideline.right
    )
    slow, fast = (microseconds_text(one, unit="µs") for one in (violation.left_s, violation.right_s))
    ratio = f"{violation.ratio:.2f}× (at least {violation.low:.2f}×)"
    return f"{_call(guideline.left)} is slower than {faster}: {ratio}, {slow} against {fast}"


def concerning(found: Findings, space: Space, chosen: Recommendation | None) -> tuple[Violation, ...]:
    """Violations with the exported settings as the slower side; not those that the default has as much."""
    default = {_calls(one.guideline): one.ratio for one in found.violations if _is_of(one, DEFAULT)}
    return tuple(
        one
        for one in found.violations
        if handed_over(one.guideline, space, chosen)
        and not (_is_of(one, EXPORTED) and default.get(_calls(one.guideline), 0.0) >= one.ratio)
    )


def _is_of(violation: Violation, setting: str) -> bool:
    """Whether all that is compared is of one setting."""
    guideline = violation.guideline
    return all(timed.setting == setting for timed in (guideline.left, *(one for _, one in guideline.right)))


def _calls(guideline: Guideline) -> tuple[object, ...]:
    """The calls that a guideline compares, whatever the setting."""
    return guideline.kind, guideline.left.slot, tuple((n, timed.slot) for n, timed in guideline.right)


def concerning_text(found: Findings, space: Space, chosen: Recommendation | None) -> str:
    """The violations by the exported settings, in one line; empty where there are none."""
    mine = concerning(found, space, chosen)
    if not mine:
        return ""
    more = f", and {len(mine) - 1} more" if len(mine) > 1 else ""
    return f"{violation_text(mine[0])}{more}"


def guidelines_section(found: Findings, space: Space, chosen: Recommendation | None) -> dict[str, Any] | None:
    """The page's section: violations, those by the exported settings first; None where there are none."""
    mine = concerning(found, space, chosen)
    others = [one for one in found.violations if one not in mine]
    if not found.violations:
        return None
    return {
        "headline": f"{len(found.violations)} of {found.tested} violated, {len(mine)} by exported settings",
        "rows": [(violation_text(one), one in mine) for one in (*mine, *others[:_ROWS])],
    }


def findings_lines(found: Findings) -> tuple[str, ...]:
    """All violations, and how many guidelines were tested at which rate."""
    if not found.tested:
        return ("no guideline can be tested: it takes two sizes, two rank counts or several collectives",)
    lines = [f"{violation_text(one)}  [{one.guideline.kind}]" for one in found.violations]
    n = len(lines)
    return (
        *lines,
        f"{n or 'none'} of {found.tested} guidelines violated beyond noise "
        f"(chance of any false one: at most {found.rate:.0%})",
    )


def findings_document(found: Findings, concerned: Sequence[Violation] | None = None) -> dict[str, Any]:
    """The same as JSON values; of a campaign with the violations by its exported settings."""

    def row(one: Violation) -> dict[str, Any]:
        guideline = one.guideline
        return {
            "kind": guideline.kind,
            "setting": guideline.left.setting,
            "slower": list(guideline.left.slot),
            "faster": [
                {"times": k, "slot": list(timed.slot), "setting": timed.setting}
                for k, timed in guideline.right
            ],
            "slower_s": one.left_s,
            "faster_s": one.right_s,
            "ratio": one.ratio,
            "ratio_low": one.low,
            "p_value": one.p_value,
            "launches": one.launches,
            **({} if concerned is None else {"handed_over": one in concerned}),
        }

    return {"tested": found.tested, "rate": found.rate, "violations": [row(one) for one in found.violations]}


def _call(timed: Timed, beside: Timed | None = None) -> str:
    collective, ranks, size = timed.slot
    words = collective if not size else f"{collective} of {size_text(size)}"
    if ranks and (beside is None or beside.slot[1] != ranks):
        words += f" on {ranks} ranks"
    same = beside is not None and beside.setting == timed.setting
    setting = "what is exported" if timed.setting == EXPORTED else timed.setting
    return words if same or not setting else f"{words} ({setting})"


ADVICE = {
    GuidelineKind.COMPOSITION: "a silent fallback, or an algorithm that is missed",
    GuidelineKind.SIZE: "a disturbed measurement, or a switch at the wrong size",
    GuidelineKind.SPLIT: "a protocol or an algorithm that begins too early",
    GuidelineKind.RANKS: "a bad choice for this number of ranks",
    GuidelineKind.ALGORITHM: "an algorithm that is missed",
}
"""The usual cause of a violation of each kind."""
