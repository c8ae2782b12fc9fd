"""A check in the words of whoever reads it: people, JUnit, Prometheus, a message of the day, ReFrame."""

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from autotune.errors import ExitCode
from autotune.guard.changes import Change
from autotune.guard.verdict import LOSS, Found, NightVerdict, Seen
from autotune.history.objectives import Slot
from autotune.verification.comparison import WHOLE
from autotune.views.text import calls_text, figure_text, size_text

_METRIC = "autotune_guard"
_PERCENT = 100


@dataclass(frozen=True)
class CheckReport:
    """One check."""

    kept: str
    """When what it is compared with was kept."""
    changes: tuple[Change, ...]
    """Differences from then."""
    not_in_effect: tuple[str, ...] = ()
    """Why settings are not in effect, or not all of them."""
    proof: str = ""
    """Result of launches under the files; empty: nothing could be launched under them."""
    verdict: NightVerdict | None = None
    """Result of the launches; None: a quick check."""
    other: tuple[str, ...] = ()
    """Comparison with another installation, a line each."""
    lost: tuple[Slot, ...] = ()
    """Where that shows a loss."""
    open: bool = False
    """Whether that does not exclude one."""
    how: tuple[str, ...] = ()
    """KEY=VALUE of a campaign that launches as the check does."""
    where: str = ""
    """Folder below which the check is written."""

    @property
    def code(self) -> ExitCode:
        """0 same, 1 slower or not in effect, 3 inconclusive."""
        verdict = self.verdict
        if self.not_in_effect or self.lost or (verdict and verdict.found):
            return ExitCode.FINDING
        if self.open or (verdict and (verdict.inconclusive or verdict.suspected or not verdict.seen)):
            return ExitCode.STUCK
        return ExitCode.WELL

    @property
    def headline(self) -> str:
        """One line."""
        if self.not_in_effect:
            return f"not in effect: {self.not_in_effect[0]}"
        verdict = self.verdict
        if verdict and verdict.found:
            worst = max(verdict.found, key=lambda one: one.ratio)
            more = f", and {len(verdict.found) - 1} more" if len(verdict.found) > 1 else ""
            return f"{_found(worst)}{more}"
        if self.lost:
            return self.other[0]
        if self.code is ExitCode.STUCK:
            return f"inconclusive: {self._missing}"
        said = "same" if verdict or self.other else "in effect"
        return (
            f"{said}: {len(self.changes)} changes since {self.kept[:10]}"
            if self.changes
            else f"{said} as on {self.kept[:10]}"
        )

    @property
    def _missing(self) -> str:
        """Measurements that would resolve it."""
        verdict = self.verdict
        if self.open or verdict is None:
            return self.other[0] if self.other else "nothing was compared"
        if not verdict.seen:
            return "no launch of each side worked"
        if verdict.suspected:
            return f"{', '.join(map(slot_words, verdict.suspected))} may be slower: another night resolves it"
        worst = max(verdict.inconclusive, key=lambda seen: seen.wanted)
        if worst.wanted <= verdict.nights:
            most = f"{_PERCENT * (worst.most - 1):.0f} %"
            return f"{slot_words(worst.slot)} may be {most} slower: another night resolves it"
        if math.isfinite(worst.wanted):
            known = f"{verdict.nights} earlier nights are known"
            return f"{known}, and about {worst.wanted:.0f} would resolve a loss of {_PERCENT * LOSS:.0f} %"
        return (
            f"{slot_words(worst.slot)} differs by {_between(worst)} between launches: "
            f"{'further nights' if math.isnan(worst.day) else 'more launches a night'} would resolve it"
        )

    def text(self) -> str:
        """For people."""
        lines = [self.headline]
        lines += [f"  not in effect: {why}" for why in self.not_in_effect[1:]]
        lines += [f"  {'BREAKS  ' if one.breaks else 'changed '} {one.text}" for one in self.changes]
        lines += [f"  {self.proof}"] if self.proof else []
        lines += [f"  {line}" for line in self.other]
        if self.verdict:
            lines += [f"  {_found(one)}" for one in self.verdict.found]
            lines += [f"  {_seen(one)}" for one in self.verdict.seen]
        lines += [f"  tune these again: {self.again}"] if self.worse else []
        return "\n".join(lines) + "\n"

    @property
    def worse(self) -> tuple[Slot, ...]:
        """Slots to be tuned again."""
        return self.verdict.worse if self.verdict else self.lost

    @property
    def again(self) -> str:
        """A command of the shell that tunes what was lost and nothing else; empty: nothing was."""
        words = ["python", "-m", "autotune", *self.how, f"retune={self.where}"]
        return shlex.join(words) if self.worse else ""

    def document(self) -> dict[str, Any]:
        """For programs."""
        verdict = self.verdict
        return {
            "code": int(self.code),
            "headline": self.headline,
            "kept": self.kept,
            "not_in_effect": list(self.not_in_effect),
            "changes": [
                {"text": c.text, "breaks": c.breaks, "names": list(c.names)} for c in self.changes
            ],
            "proof": self.proof,
            "other": list(self.other),
            "found": [{**_place(one.slot), "kind": str(one.kind), "since": one.since, "ratio": one.ratio,
                       "low": one.interval[0], "high": one.interval[1], "default_ratio": one.default}
                      for one in (verdict.found if verdict else ())],
            "slots": [{**_place(one.slot), "settings_us": one.settings_s * 1e6,
                       "default_us": one.default_s * 1e6, "not_excluded": one.most,
                       "sd_between_days": one.day, "sd_of_a_launch": one.launch}
                      for one in (verdict.seen if verdict else ())],
            "tune_again": self.again,
        }  # fmt: skip

    def junit(self, date: str, host: str) -> str:
        """For CI, by Ant's schema: a case for what is in effect and for each slot; the inconclusive skip."""
        cases: list[tuple[str, str, str]] = [
            ("in effect", "failure" if self.not_in_effect else "", "\n".join(self.not_in_effect))
        ]
        if self.other:
            kind = "failure" if self.lost else "skipped" if self.open else ""
            cases.append(("other installation", kind, "\n".join(self.other)))
        if self.verdict:
            found = {one.slot: one for one in self.verdict.found}
            open_ = {one.slot for one in self.verdict.inconclusive} | set(self.verdict.suspected)
            for slot in dict.fromkeys((*found, *(one.slot for one in self.verdict.seen))):
                said = _found(found[slot]) if slot in found else self._missing if slot in open_ else ""
                cases.append(
                    (
                        slot_words(slot),
                        "failure" if slot in found else "skipped" if slot in open_ else "",
                        said,
                    )
                )
        kinds = [kind for _, kind, _ in cases]
        suite = ElementTree.Element(
            "testsuite", name="autotune guard", tests=str(len(cases)), errors="0",
            failures=str(kinds.count("failure")), skipped=str(kinds.count("skipped")), time="0",
            hostname=host, timestamp=date.removesuffix("Z"),
        )  # fmt: skip
        ElementTree.SubElement(suite, "properties")
        for name, kind, said in cases:
            case = ElementTree.SubElement(suite, "testcase", classname="autotune.guard", name=name, time="0")
            if kind:
                about = {
                    "message": said.partition("\n")[0],
                    **({"type": "guard"} if kind == "failure" else {}),
                }
                ElementTree.SubElement(case, kind, about).text = said
        for name in ("system-out", "system-err"):
            ElementTree.SubElement(suite, name)
        ElementTree.indent(suite)
        return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"

    def metrics(self, at_s: float) -> str:
        """For the text-file collector of Prometheus' node exporter."""
        lines = [
            f"# HELP {_METRIC}_code 0 same, 1 slower or not in effect, 3 inconclusive",
            f"# TYPE {_METRIC}_code gauge",
            f"{_METRIC}_code {int(self.code)}",
            f"# HELP {_METRIC}_checked_seconds when it was checked",
            f"# TYPE {_METRIC}_checked_seconds gauge",
            f"{_METRIC}_checked_seconds {at_s:.0f}",
        ]
        for name, about, values in (
            (
                "settings_seconds",
                "time of a call under the settings",
                [(s.slot, s.settings_s) for s in self._slots],
            ),
            (
                "default_seconds",
                "time of a call of the untouched stack",
                [(s.slot, s.default_s) for s in self._slots],
            ),
            (
                "slower_ratio",
                "time over earlier nights, of what is slower",
                [(f.slot, f.ratio) for f in self._lost],
            ),
        ):
            lines += [f"# HELP {_METRIC}_{name} {about}", f"# TYPE {_METRIC}_{name} gauge"] if values else []
            lines += [f"{_METRIC}_{name}{{{_labels(slot)}}} {value:.9g}" for slot, value in values]
        return "\n".join(lines) + "\n"

    @property
    def _slots(self) -> tuple[Seen, ...]:
        return self.verdict.seen if self.verdict else ()

    @property
    def _lost(self) -> tuple[Found, ...]:
        """One of each slot."""
        return tuple({one.slot: one for one in (self.verdict.found if self.verdict else ())}.values())

    def day_message(self) -> str:
        """One line for a message of the day."""
        return f"MPI settings: {self.headline}\n"


def slot_words(slot: Slot) -> str:
    """Where."""
    return "all sizes together" if slot == WHOLE else f"{calls_text(*slot[:2])}, {size_text(slot[2])}"


def reframe_test(directory: str, seen: Sequence[Seen], program: str) -> str:
    """A test of ReFrame's that makes the check, with references from what was kept."""
    references = "".join(
        f"            {_figure(one.slot)!r}: ({one.settings_s * 1e6:.4g}, None, {_margin(one):.2f}, 'us'),\n"
        for one in seen
    )
    return _REFRAME.format(
        directory=directory,
        quoted=shlex.quote(directory),
        program=shlex.quote(program),
        references=references,
    )


def _margin(one: Seen) -> float:
    """How much slower than kept a single night may be: what is not excluded, with the spread between days."""
    spread = math.hypot(0.0 if math.isnan(one.day) else one.day, one.launch)
    return max(LOSS, 4 * spread)  # of normal nights one in 30,000 lies beyond 4 standard deviations


def _figure(slot: Slot) -> str:
    return "_".join(map(str, slot))


_REFRAME = """# Are the MPI settings below {directory!a} still right? Written by autotune guard keep.
import json

import reframe as rfm
import reframe.utility.sanity as sn


@rfm.simple_test
class AutotuneGuard(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = {program!r}
    minutes = variable(float, value=10.0)
    reference = {{
        "*": {{
{references}        }}
    }}

    @run_after("init")
    def command(self):
        check = ["-P", "-m", "autotune", "guard", "check", {quoted!r}, "--json"]
        check += ["--minutes", str(self.minutes)]
        self.executable_opts = [*check, "||", "true"]

    @sanity_function
    def holds(self):
        return sn.assert_ne(self.checked()["code"], 1, msg="slower, or not in effect")

    @run_before("performance")
    def times(self):
        self.perf_variables = {{
            "_".join(map(str, (s["collective"], s["ranks"], s["bytes"]))): sn.make_performance_function(
                sn.defer(s["settings_us"]), "us"
            )
            for s in self.checked()["slots"]
        }}

    def checked(self):
        with open(self.stagedir + "/" + str(self.stdout), encoding="utf-8") as printed:
            return json.loads(printed.read())
"""


def _found(one: Found) -> str:
    low, high = (f"{end:.2f}" if math.isfinite(end) else "?" for end in one.interval)
    also = f"; the untouched stack {one.default:.2f}×" if abs(one.default - 1) > 1e-9 else ""
    times = f"{one.ratio:.2f}× the time ({low} … {high})"
    return f"{slot_words(one.slot)}: {one.kind}, {times} since {one.since}{also}"


def _seen(one: Seen) -> str:
    times = figure_text(one.settings_s * 1e6, unit="µs")
    most = (
        f"at most {_PERCENT * (one.most - 1):.0f} % slower than before"
        if math.isfinite(one.most)
        else "before: not known"
    )
    return (
        f"{slot_words(one.slot)}: {times}, {one.default_s / one.settings_s:.2f}× the default's speed, {most} "
        f"({_between(one)} between launches)"
    )


def _between(one: Seen) -> str:
    """Spread of days, where several are known, and of launches."""
    day = "" if math.isnan(one.day) else f"{_PERCENT * one.day:.1f} % between days and "
    return f"{day}{_PERCENT * one.launch:.1f} %"


def _place(slot: Slot) -> dict[str, Any]:
    return dict(zip(("collective", "ranks", "bytes"), slot, strict=True))


def _labels(slot: Slot) -> str:
    return ",".join(f'{name}="{value}"' for name, value in _place(slot).items())
