"""Make the report on a campaign, one self-contained HTML page, from its results (step 12 of the data flow).

The page contains plotly's script once, compressed; the browser decompresses it. A browser without scripts
still shows every number, because each figure is accompanied by a table.
"""

import base64
import gzip
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from autotune.history.objectives import Score, ratio_of, scores_of
from autotune.history.trial import Phase, Subject
from autotune.recommend.front import Candidate, candidates, pareto_front
from autotune.recommend.other_calls import slower
from autotune.recommend.recommendation import Checked
from autotune.recommend.summary import ratio_to, size_rows, speedup_interval, steps
from autotune.space import Parameter
from autotune.verification.one_round import VerificationRound, last_round, launches_behind
from autotune.views import text as words
from autotune.views.report import axes, plots, sections
from autotune.views.report.sections import ReportInput, run_section
from autotune.views.report.setting_plots import choice_text


def page(inputs: ReportInput) -> str:
    """Return the whole report as HTML that needs no network and is legible on screens and on paper."""
    return rendered("page.html.j2", _view(inputs))


def rendered(template: str, view: Mapping[str, Any]) -> str:
    """Return the HTML of a template, given the variables ``view``; functions that format values are added."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("autotune.views.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    helpers = {
        "words": words,
        "ratio_of": ratio_of,
        "ratio_to": ratio_to,
        "heat": sections.heat,
        "plotly": _plotly(),
    }
    return environment.get_template(template).render(view, **helpers)


def figures(inputs: ReportInput) -> list[str]:
    """Return every figure of the page as plotly's JSON, with the figure's name in ``layout.meta``."""
    html = page(inputs)
    return re.findall(r'<script type="application/json">(.*?)</script>', html, re.DOTALL)


@cache
def _plotly() -> str:
    """Return plotly's script, compressed with gzip and encoded in base64, which reduces 4.8 MB to 1.9 MB."""
    from plotly.offline import get_plotlyjs

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()


def _view(inputs: ReportInput) -> dict[str, Any]:
    launch_steps = steps(inputs.objectives, inputs.space, inputs.history)
    measured = candidates(inputs.objectives, inputs.space, inputs.history)
    baseline = _scores(inputs)
    recommendation = inputs.recommendation
    return {
        "inputs": inputs,
        "tiles": [
            *_speedup_tiles(inputs),
            *_objective_tiles(inputs, measured, baseline),
            *_effort_tiles(inputs),
        ],
        "changes": _changes(inputs),
        "covered": sections.covered(inputs),
        "ran": run_section(inputs.ran) if inputs.ran else None,
        "install": _install(inputs),
        "launches": sections.launches(inputs, launch_steps),
        "advice": words.advice_text(recommendation, inputs.space.unset) if recommendation is not None else "",
        "unverified": recommendation is not None and not recommendation.provenance.checked.done,
        "fresh": recommendation is not None and any(gain.compared for gain in recommendation.gains),
        "tables": _tables(inputs),
        "heat_maps": sections.heat_map(inputs, measured, baseline),
        "others": words.other_calls_rows(recommendation.others) if recommendation is not None else [],
        "harms": recommendation is not None and bool(slower(recommendation.others)),
        "baseline": baseline,
        "rounds": [_round(fresh_round) for fresh_round in reversed(inputs.rounds)],
        "front": _front(inputs, measured, baseline),
        "screening": _screening(inputs),
        "winners": sections.winner_maps(inputs, measured),
        "choice_text": choice_text,
        "settings": sections.settings(inputs, measured),
        "progress": sections.progress(inputs, launch_steps, measured),
        "provenance": _provenance(inputs),
    }


def _scores(inputs: ReportInput) -> tuple[Score, ...] | None:
    untouched = inputs.history.of(Phase.BASELINE).observations
    return scores_of(inputs.objectives, inputs.baseline, untouched) or None


def _speedup_tiles(inputs: ReportInput) -> Iterable[dict[str, str]]:
    recommendation = inputs.recommendation
    if recommendation is None or not recommendation.gains:
        return
    verdicts = [words.verdict(gain) for gain in recommendation.gains]
    ratio, interval = recommendation.speedup, speedup_interval(recommendation)
    verified = recommendation.provenance.checked.done
    source = "in the search"
    if recommendation.average is not None:
        source = f"on {launches_behind(inputs.rounds, recommendation.point)} fresh launches"
    source += "" if verified else ", not verified"
    yield {
        "name": f"speed-up over {len(verdicts)} sizes, geometric mean",
        "value": words.ratio_text(ratio),
        "note": f"{words.interval_text(interval)} {source}".strip(),
    }
    yield {
        "name": "sizes faster than the default",
        "value": f"{verdicts.count('faster')} of {len(verdicts)}",
        "note": f"{verdicts.count('even')} no clear difference, {verdicts.count('slower')} slower",
    }


def _objective_tiles(
    inputs: ReportInput, measured: Sequence[Candidate], baseline: tuple[Score, ...] | None
) -> Iterable[dict[str, str]]:
    """Yield the score of the recommendation in each objective, or of the defaults if they stay."""
    if inputs.idle and baseline is not None:  # its scores are from more launches of the defaults
        for objective, default in zip(inputs.objectives, baseline, strict=True):
            value = words.figure_text(default.value, unit=objective.unit)
            yield {"name": f"{objective.name}, the stack's own", "value": value, "note": "left as it is"}
        return
    candidate = _recommended(inputs, measured)
    if candidate is None:
        return
    for i, (objective, tuned) in enumerate(zip(inputs.objectives, candidate.scores, strict=True)):
        note = ""
        if baseline is not None:
            ratio = words.ratio_text(ratio_to(objective, tuned, baseline[i]))
            note = f"{ratio} against {words.figure_text(baseline[i].value, unit=objective.unit)}"
        yield {
            "name": f"{objective.name} in the search",
            "value": words.figure_text(tuned.value, unit=objective.unit),
            "note": note,
        }


def _effort_tiles(inputs: ReportInput) -> Iterable[dict[str, str]]:
    failed, spent_s = sum(not o.ok for o in inputs.history), sum(o.duration_s for o in inputs.history)
    note = f"{failed} failed, {words.duration_text(spent_s)} in launches"
    yield {"name": "launches", "value": str(len(inputs.history)), "note": note}
    if spent_s:
        hours = f"{spent_s * inputs.nodes / 3600:.3g}"
        yield {"name": "node-hours of launches", "value": hours, "note": _payback(inputs, spent_s)}


def _payback(inputs: ReportInput, spent_s: float) -> str:
    """Return after which time in the tuned calls a verified setting has saved what the campaign took."""
    recommendation = inputs.recommendation
    if recommendation is None or recommendation.provenance.checked is not Checked.HOLDS:
        return "paid back by a verified setting only"
    low, high = speedup_interval(recommendation)
    expected, late, early = (
        words.duration_text(spent_s / (1 - 1 / ratio)) if ratio > 1 else "never"
        for ratio in (recommendation.speedup, low, high)
    )
    return f"paid back after {expected} ({early} … {late}) in these calls by default"


def _changes(inputs: ReportInput) -> list[tuple[Any, ...]]:
    """Return (parameter, recommended, default, unit, description, effect) of each changed value."""
    if inputs.recommendation is None:
        return []
    default, by_name = inputs.unset, {p.name: p for p in (inputs.whole or inputs.space).job}
    return [
        (n, v, default.get(n), *_meaning(by_name.get(n)), _discovered_effect(inputs, n, v))
        for n, v in inputs.recommendation.point.items()
        if default.get(n) != v
    ]


def _meaning(parameter: Parameter | None) -> tuple[str, str]:
    """Return the unit and the description of a parameter.

    The unit is bytes if a value has the form ``64k``, or else the unit that the description names, if any.
    """
    if parameter is None:
        return "", ""
    text = parameter.description
    if any(re.fullmatch(r"\d+[kmg]b?", str(value), re.IGNORECASE) for value in parameter.values):
        return "bytes", text
    word = re.search(r"\b(?:bytes|microseconds|usec|seconds)\b", text.lower()) if parameter.scale else None
    unit = word[0] if word else ""
    return {"usec": "µs", "microseconds": "µs", "seconds": "s"}.get(unit, unit), text


def _install(inputs: ReportInput) -> str:
    if not inputs.exports or not inputs.use:
        return ""
    recommendation = inputs.recommendation
    harmful = recommendation is not None and slower(recommendation.others) and not inputs.harmless
    option = " --choice recommended" if harmful else ""
    return f"{words.own_line('install', str(Path(inputs.exports[0]).parent.parent))}{option}"


def _discovered_effect(inputs: ReportInput, name: str, value: object) -> str:
    """Return the largest significant effect of one value in the discovery; empty if there is none."""
    section = inputs.discovery or {"rows": (), "sizes": ()}
    for label, _, cells in section["rows"]:
        if f"{label} ".startswith(f"{name} = {value} "):
            pairs = zip(cells, section["sizes"], strict=True)
            ratios = [(text, size) for (text, style), size in pairs if style != "even"]
            if ratios:
                ratio, size = max(ratios, key=lambda pair: abs(math.log(float(pair[0]) or 1.0)))
                return f"{ratio}× at {size}"
    return ""


def _tables(inputs: ReportInput) -> list[dict[str, Any]]:
    recommendation = inputs.recommendation
    if recommendation is None:
        return []
    tables, last = [], last_round(inputs.rounds, recommendation.point)
    counting = sorted(last.counting, key=lambda c: c.at_least, reverse=True) if last else ()
    at_least = {c.slot: ratio_of(c.at_least) for c in counting}  # in the loop in which it is lower
    for (collective, comm_size), group in groupby(size_rows(recommendation), key=lambda r: r.gain.slot[:2]):
        rows = list(group)
        tables.append({
            "title": words.calls_text(collective, comm_size),
            "figure": plots.curves([row.gain for row in rows], at_least),
            "names": list(dict.fromkeys(name for row in rows for name in row.choice)),
            "other_loop": any(row.gain.other_loop for row in rows),
            "rows": rows,
            "longest": axes.limits([row.gain.ratio for row in rows])[1],
        })  # fmt: skip
    return tables


def _round(fresh_round: VerificationRound) -> dict[str, Any]:
    groups = []
    for (collective, comm_size), group in groupby(fresh_round.comparisons, key=lambda c: c.slot[:2]):
        compared = list(group)
        figure = plots.verification(compared, fresh_round.blocks, fresh_round.setting.gains)
        title = words.calls_text(collective, comm_size)
        groups.append({"title": title, "figure": figure, "judged": compared})
    searched = {gain.slot: gain for gain in fresh_round.setting.gains}
    return {"its": fresh_round, "searched": searched, "groups": groups}


def _front(
    inputs: ReportInput, measured: Sequence[Candidate], baseline: tuple[Score, ...] | None
) -> dict[str, Any] | None:
    if not measured:
        return None
    best, recommended = pareto_front(inputs.objectives, measured), _recommended(inputs, measured)
    arguments = (inputs.objectives, measured, best, recommended, inputs.space.unset, baseline)
    figure = plots.front(*arguments) if len(inputs.objectives) > 1 else None
    return {"figure": figure, "n_tried": len(measured), "best": best, "chosen": recommended}


def _recommended(inputs: ReportInput, measured: Sequence[Candidate]) -> Candidate | None:
    if inputs.recommendation is None:
        return None
    shared = {p.name for p in inputs.space.job if not p.per_size}
    setting = inputs.recommendation.point.restricted(shared)
    return next((c for c in measured if c.point.restricted(shared) == setting), None)


def _screening(inputs: ReportInput) -> dict[str, Any] | None:
    if not inputs.effects:
        return None
    pairs = list(zip(inputs.objectives, inputs.effects, strict=True))
    return {
        "figures": [plots.effects(*pair) for pair in pairs],
        "half_normal": [
            plots.half_normal(objective, analysis)
            for objective, analysis in pairs
            if any(math.isfinite(effect.half_normal) for effect in analysis.effects)
        ],
        "n_runs": inputs.effects[0].n_runs,
        "decisions": {d.factor: d for d in inputs.screening.decisions} if inputs.screening else {},
        "notes": list(dict.fromkeys(note for analysis in inputs.effects for note in analysis.notes)),
    }


def _provenance(inputs: ReportInput) -> list[tuple[str, str]]:
    recommendation = inputs.recommendation
    hosts = dict.fromkeys(host for o in inputs.history for host in o.hosts)
    origin: Mapping[str, str] = {} if recommendation is None else {
        "stack": recommendation.provenance.stack,
        "size": f"{recommendation.provenance.ranks} ranks, nodes: {recommendation.provenance.nodes}",
        "last launch": recommendation.provenance.date,
        "verification": recommendation.provenance.verified,
        "environment": ", ".join(f"{name}={value}" for name, value in recommendation.provenance.env),
        "placement": ", ".join(f"{name} {value}" for name, value in recommendation.provenance.placement),
    }  # fmt: skip
    space = inputs.space
    shape = f"{space.name}, {len(space.parameters)} parameters, fingerprint {space.fingerprint}"
    defaults = sum(o.trial.subject is Subject.UNTOUCHED for o in inputs.history)
    rows = [*origin.items(), ("hosts", ", ".join(hosts)), ("space", shape)]
    rows += [("baseline", f"{defaults} launches with nothing set")] if defaults else []
    rows += [(remark.subject, remark.text) for remark in inputs.remarks]
    return [(heading, text) for heading, text in rows if text]
