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
from autotune.history.objectives import Slot, known_end, ratio_of
from autotune.views.documents import fields_of
from autotune.views.text import figure_text, own_line

_PERCENT = 100


@dataclass(frozen=True)
class CheckReport:
    """The result of one check."""

    kept: str  # Date of the ``guard keep`` that saved the reference of the check.
    changes: tuple[Change, ...]  # Differences between the machine now and that reference.
    not_in_effect: tuple[str, ...] = ()  # Reasons why the settings, or some of them, are not in effect.
    proof: str = ""  # Result of the launches that check whether exported files take effect, if any.
    verdict: NightVerdict | None = None  # Comparison with earlier nights and defaults; None: not made.
    beside: Beside | None = None  # Comparison with the reference in alternating launches, if any.
    how_beside: str = ""  # Heading of that comparison: what was compared, and with how many launches.
    lacking: tuple[str, ...] = ()  # Parts of the reference that could not be restored for that comparison.
    other: str = ""  # Reason why nothing was compared, or no rank started; otherwise empty.
    how: tuple[str, ...] = ()  # Settings KEY=VALUE of a campaign that launches MPI as the check does.
    folder: str = ""  # Directory that contains the settings, or the user's own folder for records of checks.

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
        beside, day = self.beside or Beside(), self.kept[:10]
        losses = [
            Loss(c.slot, Kind.KEPT, day, ratio_of(-c.gain), (ratio_of(-c.high), ratio_of(-c.low)), 1.0)
            for c in beside.comparisons
            if c.slot in beside.slower
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
        worst, nights = max(verdict.inconclusive, key=lambda one: one.nights_needed), verdict.nights
        if worst.nights_needed <= nights:
            bound = worst.ratio_bound
            share = f"{_PERCENT * (bound - 1):.0f} % " if math.isfinite(bound) else ""
            return f"{slot_words(worst.slot)} may be {share}slower: another night may resolve it"
        if math.isfinite(worst.nights_needed):
            known = f"{nights} earlier nights are" if nights != 1 else "1 earlier night is"
            needed = f"about {worst.nights_needed:.0f} would resolve a loss of {_PERCENT * LOSS:.0f} %"
            return f"{known} known, and {needed}"
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
        lines += [f"  {_estimate_text(entry)}" for entry in self._seen]
        lines += [f"  tune these again: {self.again}"] if self.worse else []
        return "\n".join(lines) + "\n"

    @property
    def _comparison_lines(self) -> list[str]:
        """Return the lines of text about the comparison with the reference."""
        lines = [self.how_beside, *(f"  {line}" for line in self.beside.lines)] if self.beside else []
        return lines + [f"not here to be launched beside it: {what}" for what in self.lacking]

    @property
    def worse(self) -> tuple[Slot, ...]:
        """Return the slots to be tuned again."""
        by_nights = self.verdict.worse if self.verdict else ()
        return tuple(dict.fromkeys((*(self.beside.slower if self.beside else ()), *by_nights)))

    @property
    def again(self) -> str:
        """Return a shell command that tunes again only the slots that became slower; empty if none did."""
        return own_line(*self.how, f"retune={self.folder}") if self.worse else ""

    def document(self) -> dict[str, Any]:
        """Return the report as JSON values for programs."""
        return {
            "code": int(self.code),
            **fields_of(self, "headline", "kept", "not_in_effect"),
            "changes": [fields_of(change, "text", "breaks", "names") for change in self.changes],
            **fields_of(self, "proof", "other"),
            "beside": self.beside and {
                "how": self.how_beside,
                "slower": [_slot_fields(slot) for slot in self.beside.slower],
                **fields_of(self.beside, "open", "failures", "most_lost", "launches"),
                "slots": [{**_slot_fields(c.slot), "speed": ratio_of(c.gain),
                           "low": known_end(ratio_of(c.low)), "high": known_end(ratio_of(c.high))}
                          for c in self.beside.comparisons],
            },
            "lacking": self.lacking,
            "found": [{**_slot_fields(loss.slot), **fields_of(loss, "kind", "since", "ratio"),
                       **dict(zip(("low", "high"), map(known_end, loss.interval), strict=True)),
                       "default_ratio": loss.default}
                      for loss in self.found],
            "slots": [{**_slot_fields(slot.slot), "settings_us": slot.settings_s * 1e6,
                       "default_us": slot.default_s * 1e6, "not_excluded": slot.ratio_bound,
                       "sd_between_days": slot.day, "sd_of_a_launch": slot.launch} for slot in self._seen],
            "tune_again": self.again,
        }  # fmt: skip

    def junit(self, date: str, host: str) -> str:
        """Return the report as JUnit XML for CI, in the schema of Ant.

        There is a test case for whether the settings are in effect, one for the comparison with the
        reference, and one for each slot. An inconclusive test case is marked as skipped.
        """
        cases = [("in effect", "failure" if self.not_in_effect else "", "\n".join(self.not_in_effect))]
        if (beside := self.beside) or self.other:
            inconclusive = "skipped" if self.other or not beside or beside.open else ""
            kind = "failure" if beside and beside.worse and not self.other else inconclusive
            cases.append(("as kept", kind, "\n".join([self.other or self.headline, *self._comparison_lines])))
        losses = {slot: _loss_text(loss) for slot, loss in self._loss_by_slot.items()}
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
                attributes = {"type": "guard"} if kind == "failure" else {}
                message = detail.partition("\n")[0]
                ElementTree.SubElement(case, kind, {"message": message, **attributes}).text = detail
        for name in ("system-out", "system-err"):
            ElementTree.SubElement(suite, name)
        ElementTree.indent(suite)
        return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"

    def metrics(self, at_s: float) -> str:
        """Return the report in the format that Prometheus' node exporter reads from text files."""
        default = {_labels(one.slot): f"{one.default_s:.9g}" for one in self._seen}
        settings = {_labels(one.slot): f"{one.settings_s:.9g}" for one in self._seen}
        slower = {_labels(slot): f"{loss.ratio:.9g}" for slot, loss in self._loss_by_slot.items()}
        lines = []
        for name, about, values in (
            ("code", "0 same, 1 slower or not in effect, 3 inconclusive", {"": str(int(self.code))}),
            ("checked_seconds", "when it was checked", {"": f"{at_s:.0f}"}),
            ("settings_seconds", "time of a call under the settings", settings),
            ("default_seconds", "time of a call of the untouched stack", default),
            ("slower_ratio", "time over earlier nights, of what is slower", slower),
        ):
            name = f"autotune_guard_{name}"
            lines += [f"# HELP {name} {about}", f"# TYPE {name} gauge"] if values else []
            lines += [f"{name}{labels} {value}" for labels, value in values.items()]
        return "\n".join(lines) + "\n"

    @property
    def _seen(self) -> tuple[SlotEstimate, ...]:
        return self.verdict.seen if self.verdict else ()

    @property
    def _loss_by_slot(self) -> dict[Slot, Loss]:
        """Return for each slot with slowdowns the first of them in ``found``."""
        return {loss.slot: loss for loss in reversed(self.found)}

    def day_message(self) -> str:
        """Return the result as one line for a message of the day."""
        return f"MPI settings: {self.headline}\n"


def reframe_test(directory: str, estimates: Sequence[SlotEstimate], program: str) -> str:
    """Return the source of a ReFrame test that runs the check; its references are the estimated times."""
    references = ""
    for one in estimates:
        spread = math.hypot(0.0 if math.isnan(one.day) else one.day, one.launch)
        margin = max(LOSS, 4 * spread)  # of normally distributed nights, 1 in 30,000 exceeds this
        name = "_".join(map(str, one.slot))
        references += f"            {name!r}: ({one.settings_s * 1e6:.4g}, None, {margin:.2f}, 'us'),\n"
    quoted, program = shlex.quote(directory), shlex.quote(program)
    return _REFRAME.format(directory=directory, quoted=quoted, program=program, references=references)


_REFRAME = """# Are the MPI settings below {directory!a} still right? Written by autotune guard keep.
import json

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.backends import getlauncher


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

    @run_before("run")
    def alone(self):  # the check launches MPI itself: the partition's launcher would start it within MPI
        self.job.launcher = getlauncher("local")()

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
    """Return a text with the spread between launches and, if there were several checks, between checks."""
    day = "" if math.isnan(estimate.day) else f"{_PERCENT * estimate.day:.1f} % between checks and "
    return f"{day}{_PERCENT * estimate.launch:.1f} %"


def _slot_fields(slot: Slot) -> dict[str, Any]:
    return dict(zip(("collective", "ranks", "bytes"), slot, strict=True))


def _labels(slot: Slot) -> str:
    labels = ",".join(f'{name}="{value}"' for name, value in _slot_fields(slot).items())
    return f"{{{labels}}}"
