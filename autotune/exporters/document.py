"""Export a recommendation as JSON for programs and as a summary for people (step 12 of the data flow)."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from autotune.errors import UserError, printable
from autotune.exporters.launch_line import placed
from autotune.exporters.origin import remarks
from autotune.history.lookup import choice_at
from autotune.history.objectives import known_end, ratio_of
from autotune.history.trial import Rule
from autotune.recommend.other_calls import OtherCall
from autotune.recommend.recommendation import Gain, Provenance, Recommendation
from autotune.resources.secret import environment_without_secrets
from autotune.space import Point
from autotune.structure import Document, parsed
from autotune.views.documents import json_text
from autotune.views.text import (
    calls_text,
    microseconds_text,
    other_calls_rows,
    other_text,
    ratio_text,
    size_text,
)

VERSION = 1  # Version of the JSON document's format.

_SOURCE_FIELDS = ("campaign", "date", "stack", "nodes", "ranks", "stamp", "verified")
_PAIRS = ("env", "placement", "both_sides", "boot")
_EXPECTED = "expected a file of `export --format json`"
_SLOT = ("collective", "comm_size", "message_bytes")
_TIMES = ("tuned_s", "tuned_sem_s", "default_s", "default_sem_s")


_LEAST, _MOST = ratio_of(-math.inf), ratio_of(math.inf)
"""Ends of an interval that are not known, as the comparison of launches has them."""


class _Unread:
    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """Return an empty text, because no MPI reads these files."""
        return ""


class JsonDocument(_Unread):
    """Exports the whole recommendation, for other programs and for merging with others."""

    name = "json"
    summary = "recommendation.json: everything, with a versioned schema"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """Return a mapping from the file's name to the JSON document."""
        source = recommendation.provenance
        document: dict[str, Any] = {
            "format": "autotune recommendation",
            "version": VERSION,
            "provenance": {
                **{name: getattr(source, name) for name in _SOURCE_FIELDS},
                **{name: dict(getattr(source, name)) for name in _PAIRS},
                "both_sides": environment_without_secrets(dict(source.both_sides)),
                "parts": [asdict(part) for part in source.parts],
                **({"commutative": True} if source.commutative else {}),
            },
            "point": dict(recommendation.point),
            "rules": [{**asdict(rule), "choice": dict(rule.choice)} for rule in recommendation.rules],
            "gains": [
                {
                    **dict(zip(_SLOT, gain.slot, strict=True)),
                    **{name: getattr(gain, name) for name in _TIMES},
                    **({"other_loop": _ratios(gain.other_loop)} if gain.other_loop else {}),
                    **({"compared": _ratios(gain.compared)} if gain.compared else {}),
                }
                for gain in recommendation.gains
            ],
            **({"others": [*map(call_document, others)]} if (others := recommendation.others) else {}),
        }
        return {"recommendation.json": printable(json_text(document, ascii_only=False))}


class Summary(_Unread):
    """Exports a summary for people: Markdown that reads well as plain text."""

    name = "summary"
    summary = "summary.md: what was found, for people (Markdown)"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """Return a mapping from the file's name to the Markdown text."""
        lines = [f"# {recommendation.provenance.campaign or 'Recommendation'}", ""]
        lines += [f"- {remark}" for remark in remarks(recommendation)]
        if recommendation.gains:
            lines.append(f"- speed-up, geometric mean over all sizes: {ratio_text(recommendation.speedup)}")
        for label, text, command in recommendation.provenance.ending:
            told = f"{label} {text}\n\n    {command}" if command else f"{label}: {text}"
            lines += ["", told]
        if choices := recommendation.provenance.choices:
            lines += ["", "## Choices", "", *(f"- {choice}" for choice in choices)]
        lines += ["", "## For the whole job", ""]
        settings = [f"{name}={value}" for name, value in recommendation.provenance.env]
        settings += [f"mpirun {option}" for option in placed(recommendation)]
        boot = recommendation.provenance.boot
        settings += [f"{name}={value} (firmware, a precondition)" for name, value in boot]
        lines += [f"- `{setting}`" for setting in settings] or ["- nothing is set"]
        lines += ["", "## By message size", ""]
        lines += _size_lines(recommendation) or ["No rule: the stack decides."]
        lines += _other_lines(recommendation)
        # Without the backslash, viewers of Markdown would interpret ``<`` in the text as HTML.
        text = printable("\n".join(lines)).replace("<", r"\<")
        return {"summary.md": f"{text}\n"}


def call_document(call: OtherCall) -> dict[str, Any]:
    """Return the effect on another call as JSON values; ends that are not known are NaN."""
    ends = {name: known_end(getattr(call, name)) for name in ("low", "high", "at_least")}
    return {**asdict(call), **ends}


def _ratios(measured: tuple[float, float, float]) -> list[float]:
    """Return a ratio and the ends of its interval for a document; ends that are not known are NaN."""
    ratio, *ends = measured
    return [ratio, *map(known_end, ends)]


def recommendation_of(text: str, name: str = "recommendation.json") -> Recommendation:
    """Return the recommendation that a JSON document contains.

    Raises:
        UserError: The text is not such a document, or a newer version of autotune wrote it.
    """
    try:
        document = parsed(text, name, UserError, _EXPECTED)
        if document.get("format") != "autotune recommendation":
            raise UserError(f"{name} is no recommendation", _EXPECTED)
        if document["version"] > VERSION:
            raise UserError(f"{name} has version {document['version']}", f"this program reads {VERSION}")
        read = Document(name, UserError, own=True, newer=True)
        source = dict(document["provenance"])
        for key in _PAIRS:
            source[key] = list(source.get(key, {}).items())
        return Recommendation(
            Point.of(read.structured(_Settings, {"values": document["point"]}, "point").values),
            tuple(read.structured(Rule, rule, "rules") for rule in document["rules"]),
            tuple(_gain(read, gain) for gain in document["gains"]),
            read.structured(Provenance, source, "provenance"),
            others=tuple(_other_call(read, call) for call in document.get("others", ())),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        if isinstance(exc, UserError):
            raise
        raise UserError(f"{name} cannot be read: {exc}", _EXPECTED) from exc


@dataclass(frozen=True, slots=True)
class _Settings:
    values: Mapping[str, str | int | float]


def _gain(read: Document, document: Mapping[str, Any]) -> Gain:
    """Return the gain that a document describes, in which null as a standard error means infinity.

    Raises:
        UserError: The document lacks a figure, or contains one that no measurement can give.
    """
    unbounded = {key: math.inf for key in ("tuned_sem_s", "default_sem_s") if document[key] is None}
    slot = [document[key] for key in _SLOT]
    gain = read.structured(Gain, {**document, **unbounded, "slot": slot}, "gains")
    gain = replace(gain, other_loop=_known(gain.other_loop), compared=_known(gain.compared))
    ratios = [
        r for interval in (gain.other_loop, gain.compared) if interval for r in interval if not math.isnan(r)
    ]
    times, errors = (gain.tuned_s, gain.default_s), (gain.tuned_sem_s, gain.default_sem_s)
    if not (min(times) > 0 and min(errors) >= 0 and min(ratios, default=0.0) >= 0 and min(slot[1:]) >= 0):
        raise UserError(f"gains: times, errors or ratios of {slot} that no measurement gives", _EXPECTED)
    if gain.compared and not gain.compared[0] > 0:
        raise UserError(f"gains: compared={gain.compared} of {slot}", _EXPECTED)
    return gain


def _known(measured: tuple[float, float, float] | None) -> tuple[float, float, float] | None:
    """Return a ratio and its interval, after replacing ends that are NaN (null in JSON, not known)."""
    if measured is None:
        return None
    ratio, low, high = measured
    return ratio, _LEAST if math.isnan(low) else low, _MOST if math.isnan(high) else high


def _other_call(read: Document, document: Mapping[str, Any]) -> OtherCall:
    call = read.structured(OtherCall, document, "others")
    low, at_least = (_LEAST if math.isnan(end) else end for end in (call.low, call.at_least))
    return replace(call, low=low, high=_MOST if math.isnan(call.high) else call.high, at_least=at_least)


def _other_lines(recommendation: Recommendation) -> list[str]:
    if not recommendation.others:
        return []
    head = "| call | size | default [µs] | tuned [µs] | speed-up (95 %) | decision |"
    rows = (f"| {' | '.join(row)} |" for row in other_calls_rows(recommendation.others))
    return ["", "## Other calls", "", head, "|---|---:|---:|---:|---|---|", *rows]


def _size_lines(recommendation: Recommendation) -> list[str]:
    if not recommendation.gains:
        return [
            f"- {r.collective}, {r.comm_size} ranks, from {size_text(r.min_bytes)}: {r.choice}"
            for r in recommendation.rules
        ]
    lines: list[str] = []
    has_other_loop = any(gain.other_loop for gain in recommendation.gains)
    head = ["size", "choice", "tuned", "default", "speed-up (95 %)", *["in the other loop"] * has_other_loop]
    for (collective, comm_size), group in groupby(recommendation.gains, key=lambda gain: gain.slot[:2]):
        lines += [""] * bool(lines) + [f"### {calls_text(collective, comm_size)}", ""]
        lines += [f"| {' | '.join(head)} |", f"|---:|---|---:|---:|---|{'---|' * has_other_loop}"]
        for gain in group:
            choice = str(choice_at(recommendation.rules, gain.slot) or "the stack decides")
            times = (microseconds_text(t, unit="µs") for t in (gain.tuned_s, gain.default_s))
            row = [size_text(gain.slot[2]), choice, *times, ratio_text(gain.ratio, gain.interval)]
            lines.append(f"| {' | '.join([*row, *[other_text(gain)] * has_other_loop])} |")
    return lines
