"""Format the result of a ``guard check``: text, JSON, JUnit, Prometheus, message of the day and ReFrame."""

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from autotune.errors import ExitCode
from autotune.guard.beside import Beside
from autotune.guard.changes import Change
from autotune.guard.kept import slot_words
from autotune.guard.verdict import LOSS, Kind, Loss, NightVerdict, SlotEstimate
from autotune.history.objectives import Slot, ratio_of
from autotune.views.text import figure_text

_METRIC = "autotune_guard"
_PERCENT = 100


@dataclass(frozen=True)
class CheckReport:
    """The result of one check."""

    kept: str
    """Date of the ``guard keep`` that saved the reference of the check."""
    changes: tuple[Change, ...]
    """Differences between the machine now and that reference."""
    not_in_effect: tuple[str, ...] = ()
    """Reasons why the settings, or some of them, are not in effect; empty if all are."""
    proof: str = ""
    """Result of the launches that check whether the exported files take effect; empty if there were none."""
    verdict: NightVerdict | None = None
    """Comparison of the launches with earlier nights and the default; None for a quick check."""
    beside: Beside | None = None
    """Comparison of today's environment with that of the reference, launched in the same blocks; None if
    these were not compared."""
    how_beside: str = ""
    """Heading of the text of that comparison: what was compared, and with how many launches."""
    lacking: tuple[str, ...] = ()
    """Descriptions of the parts of the reference that could not be restored for that comparison."""
    other: str = ""
    """Reason why nothing was compared, or no rank started; otherwise empty."""
    how: tuple[str, ...] = ()
    """Command-line settings KEY=VALUE of a campaign that launches as the check does."""
    folder: str = ""
    """Directory that contains the settings, or the user's own folder for records of checks."""

    @property
    def code(self) -> ExitCode:
        """Return the exit code: 0 if unchanged, 1 if slower or not in effect, 3 if inconclusive."""
        verdict, beside = self.verdict, self.beside
        if self.not_in_effect or (beside and beside.worse) or (verdict and verdict.found):
            return ExitCode.FINDING
        if self.other or (beside and beside.open) or (verdict and verdict.suspected):
            return ExitCode.STUCK
        by_nights = verdict and (verdict.inconclusive or not verdict.seen)
        return ExitCode.STUCK if by_nights and (self.lacking or not beside) else ExitCode.WELL

    @property
    def headline(self) -> str:
        """Return the result on one line."""
        if self.not_in_effect:
            return f"not in effect: {self.not_in_effect[0]}"
        verdict, beside = self.verdict, self.beside
        if losses := self.found:
            worst = max(losses, key=lambda loss: loss.ratio)
            further = f", and {len(losses) - 1} more" if len(losses) > 1 else ""
            return f"{_loss_text(worst)}{further}"
        if beside and beside.failures:
            return f"fails more often than as kept: {beside.failures}"
        if self.code is ExitCode.STUCK:
            return f"inconclusive: {self._missing}"
        state = "same" if verdict or beside else "in effect"
        bound = f", {beside.bound}" if beside and not self.lacking else ""
        since = f"{len(self.changes)} changes since {self.kept[:10]}"
        return f"{state}: {since}{bound}" if self.changes else f"{state} as on {self.kept[:10]}{bound}"

    @property
    def found(self) -> tuple[Loss, ...]:
        """Return the slowdowns against the reference, against earlier nights, and against the default."""
        by_slot = {c.slot: c for c in self.beside.comparisons} if self.beside else {}
        times = {slot: (-c.gain, -c.high, -c.low) for slot, c in by_slot.items()}
        losses = [
            Loss(slot, Kind.KEPT, self.kept[:10], ratio_of(y), (ratio_of(low), ratio_of(high)), 1.0)
            for slot, (y, low, high) in times.items()
            if self.beside and slot in self.beside.slower
        ]
        return (*losses, *(self.verdict.found if self.verdict else ()))

    @property
    def _missing(self) -> str:
        """Return a text that states which measurements would make the result conclusive."""
        verdict, beside = self.verdict, self.beside
        if self.other:
            return self.other
        if beside and beside.open:
            return f"{beside.bound}: more launches would resolve it (--minutes)"
        if verdict is None:
            return "nothing was compared"
        cannot = f"{self.lacking[0]} is not here to be launched beside it; " if self.lacking else ""
        return f"{cannot}{self._missing_nights(verdict)}"

    def _missing_nights(self, verdict: NightVerdict) -> str:
        if not verdict.seen:
            return "no launch of each side worked"
        if verdict.suspected:
            slots = ", ".join(map(slot_words, verdict.suspected))
            return f"{slots} may be slower: another night may resolve it"
        worst = max(verdict.inconclusive, key=lambda estimate: estimate.nights_needed)
        if worst.nights_needed <= verdict.nights:
            loss_text = (
                f"{_PERCENT * (worst.ratio_bound - 1):.0f} % slower"
                if math.isfinite(worst.ratio_bound)
                else "slower"
            )
            return f"{slot_words(worst.slot)} may be {loss_text}: another night may resolve it"
        if math.isfinite(worst.nights_needed):
            nights_text = (
                f"{verdict.nights} earlier nights are" if verdict.nights != 1 else "1 earlier night is"
            )
            return (
                f"{nights_text} known, and about {worst.nights_needed:.0f} "
                f"would resolve a loss of {_PERCENT * LOSS:.0f} %"
            )
        remedy = (
            "more launches a night" if worst.by_launches else "nothing but both sides at the same moments"
        )
        slots = f"{slot_words(worst.slot)} differs by {_spread_text(worst)} between launches"
        return f"{slots}: {remedy} would resolve it"

    def text(self) -> str:
        """Return the report as text for people."""
        lines = [self.headline]
        lines += [f"  not in effect: {why}" for why in self.not_in_effect[1:]]
        lines += [f"  {'BREAKS  ' if entry.breaks else 'changed '} {entry.text}" for entry in self.changes]
        lines += [f"  {self.proof}"] if self.proof else []
        lines += [f"  {self.other}"] if self.other else []
        lines += [f"  {line}" for line in self._comparison_lines]
        lines += [f"  {_loss_text(entry)}" for entry in self.found]
        lines += [f"  {_estimate_text(entry)}" for entry in (self.verdict.seen if self.verdict else ())]
        lines += [f"  tune these again: {self.again}"] if self.worse else []
        return "\n".join(lines) + "\n"

    @property
    def _comparison_lines(self) -> list[str]:
        """Return the lines of text about the comparison with the reference."""
        lines = [self.how_beside, *(f"  {line}" for line in self.beside.lines)] if self.beside else []
        return lines + [f"not here to be launched beside it: {what}" for what in self.lacking]

    @property
    def worse(self) -> tuple[Slot, ...]:
        """Return the slots (collective, communicator size, message size) to be tuned again."""
        by_nights = self.verdict.worse if self.verdict else ()
        return tuple(dict.fromkeys((*(self.beside.slower if self.beside else ()), *by_nights)))

    @property
    def again(self) -> str:
        """Return a shell command that tunes again only the slots that became slower; empty if none did."""
        words = ["python", "-m", "autotune", *self.how, f"retune={self.folder}"]
        return shlex.join(words) if self.worse else ""

    def document(self) -> dict[str, Any]:
        """Return the report as JSON values for programs."""
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
            "other": self.other,
            "beside": {"how": self.how_beside, "slower": [_slot_fields(slot) for slot in self.beside.slower],
                       "open": self.beside.open, "failures": self.beside.failures,
                       "most_lost": self.beside.most_lost, "launches": self.beside.launches,
                       "slots": [{**_slot_fields(c.slot), "speed": ratio_of(c.gain), "low": ratio_of(c.low),
                                  "high": ratio_of(c.high)} for c in self.beside.comparisons],
                       } if self.beside else None,
            "lacking": list(self.lacking),
            "found": [{**_slot_fields(entry.slot), "kind": str(entry.kind), "since": entry.since,
                       "ratio": entry.ratio, "low": entry.interval[0],
                       "high": entry.interval[1], "default_ratio": entry.default}
                      for entry in self.found],
            "slots": [{**_slot_fields(entry.slot), "settings_us": entry.settings_s * 1e6,
                       "default_us": entry.default_s * 1e6, "not_excluded": entry.ratio_bound,
                       "sd_between_days": entry.day, "sd_of_a_launch": entry.launch}
                      for entry in (verdict.seen if verdict else ())],
            "tune_again": self.again,
        }  # fmt: skip

    def junit(self, date: str, host: str) -> str:
        """Return the report as JUnit XML for CI, in the schema of Ant.

        There is a test case for whether the settings are in effect, one for the comparison with the
        reference, and one for each slot (collective, communicator size, message size). An inconclusive test
        case is marked as skipped.
        """
        cases: list[tuple[str, str, str]] = [
            ("in effect", "failure" if self.not_in_effect else "", "\n".join(self.not_in_effect))
        ]
        if self.beside or self.other:
            kind = "skipped" if self.other else ""
            if self.beside and not self.other:
                kind = "failure" if self.beside.worse else "skipped" if self.beside.open else ""
            cases.append(("as kept", kind, "\n".join([self.other or self.headline, *self._comparison_lines])))
        losses = {entry.slot: _loss_text(entry) for entry in reversed(self.found)}
        verdict = self.verdict or NightVerdict()
        open_ = {*(entry.slot for entry in verdict.inconclusive), *verdict.suspected} - losses.keys()
        for slot in dict.fromkeys((*losses, *(entry.slot for entry in verdict.seen))):
            kind = "failure" if slot in losses else "skipped" if slot in open_ else ""
            detail = losses.get(slot) or (self._missing_nights(verdict) if kind else "")
            cases.append((slot_words(slot), kind, detail))
        kinds = [kind for _, kind, _ in cases]
        suite = ElementTree.Element(
            "testsuite", name="autotune guard", tests=str(len(cases)), errors="0",
            failures=str(kinds.count("failure")), skipped=str(kinds.count("skipped")), time="0",
            hostname=host, timestamp=date.removesuffix("Z"),
        )  # fmt: skip
        ElementTree.SubElement(suite, "properties")
        for name, kind, detail in cases:
            case = ElementTree.SubElement(suite, "testcase", classname="autotune.guard", name=name, time="0")
            if kind:
                attributes = {
                    "message": detail.partition("\n")[0],
                    **({"type": "guard"} if kind == "failure" else {}),
                }
                ElementTree.SubElement(case, kind, attributes).text = detail
        for name in ("system-out", "system-err"):
            ElementTree.SubElement(suite, name)
        ElementTree.indent(suite)
        return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"

    def metrics(self, at_s: float) -> str:
        """Return the report for the text-file collector of Prometheus' node exporter."""
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
                [(f.slot, f.ratio) for f in self._loss_by_slot],
            ),
        ):
            lines += [f"# HELP {_METRIC}_{name} {about}", f"# TYPE {_METRIC}_{name} gauge"] if values else []
            lines += [f"{_METRIC}_{name}{{{_labels(slot)}}} {value:.9g}" for slot, value in values]
        return "\n".join(lines) + "\n"

    @property
    def _slots(self) -> tuple[SlotEstimate, ...]:
        return self.verdict.seen if self.verdict else ()

    @property
    def _loss_by_slot(self) -> tuple[Loss, ...]:
        """Return the first slowdown of each slot."""
        return tuple({loss.slot: loss for loss in reversed(self.found)}.values())

    def day_message(self) -> str:
        """Return the result as one line for a message of the day."""
        return f"MPI settings: {self.headline}\n"


def reframe_test(directory: str, estimates: Sequence[SlotEstimate], program: str) -> str:
    """Return the source of a ReFrame test that runs the check; its references are the estimated times."""
    references = "".join(
        f"            {_figure(estimate.slot)!r}: "
        f"({estimate.settings_s * 1e6:.4g}, None, {_margin(estimate):.2f}, 'us'),\n"
        for estimate in estimates
    )
    return _REFRAME.format(
        directory=directory,
        quoted=shlex.quote(directory),
        program=shlex.quote(program),
        references=references,
    )


def _margin(estimate: SlotEstimate) -> float:
    """Return by which share a single night may be slower before the ReFrame test fails.

    The share is at least ``LOSS``, and larger if the times of nights and launches have a large spread.
    """
    spread = math.hypot(0.0 if math.isnan(estimate.day) else estimate.day, estimate.launch)
    return max(LOSS, 4 * spread)  # one of 30,000 normal nights is beyond 4 standard deviations


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


def _loss_text(loss: Loss) -> str:
    low, high = (f"{end:.2f}" if math.isfinite(end) else "?" for end in loss.interval)
    default_text = f"; the untouched stack {loss.default:.2f}×" if abs(loss.default - 1) > 1e-9 else ""
    times = f"{loss.ratio:.2f}× the time ({low} … {high})"
    return f"{slot_words(loss.slot)}: {loss.kind}, {times} since {loss.since}{default_text}"


def _estimate_text(estimate: SlotEstimate) -> str:
    times = figure_text(estimate.settings_s * 1e6, unit="µs")
    bound = "before: not known"
    if math.isfinite(estimate.ratio_bound):
        change = f"{_PERCENT * abs(estimate.ratio_bound - 1):.0f} %"
        bound = f"at most {change} slower" if estimate.ratio_bound >= 1 else f"at least {change} faster"
        bound += " than before (95 %)"
    return (
        f"{slot_words(estimate.slot)}: {times}, "
        f"{estimate.default_s / estimate.settings_s:.2f}× the default's speed, {bound} "
        f"({_spread_text(estimate)} between launches)"
    )


def _spread_text(estimate: SlotEstimate) -> str:
    """Return a text with the spread between launches, and that between checks if there were several."""
    day = "" if math.isnan(estimate.day) else f"{_PERCENT * estimate.day:.1f} % between checks and "
    return f"{day}{_PERCENT * estimate.launch:.1f} %"


def _slot_fields(slot: Slot) -> dict[str, Any]:
    return dict(zip(("collective", "ranks", "bytes"), slot, strict=True))


def _labels(slot: Slot) -> str:
    return ",".join(f'{name}="{value}"' for name, value in _slot_fields(slot).items())
