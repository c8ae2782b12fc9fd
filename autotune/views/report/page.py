"""The report of a campaign: from its data to one HTML page that needs nothing else (step 12 of the flow).

Plotly's script is packed into the page once, compressed; it is unpacked by the browser. Without a script the
page still has every number: figures come in addition to tables, never in their place.
"""

import base64
import gzip
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from shlex import quote
from statistics import median
from typing import Any

from autotune.history.objectives import Score, ratio_of, score
from autotune.history.trial import Subject
from autotune.recommend.contours import contours, strongest
from autotune.recommend.front import Candidate, candidates, pareto_front
from autotune.recommend.recommendation import Recommendation
from autotune.recommend.summary import Step, ratio_to, size_rows, speedup_interval, steps
from autotune.space import Parameter
from autotune.verification.one_round import VerificationRound, launches_behind
from autotune.views import text as words
from autotune.views.report import plots, screening_plots, sections
from autotune.views.report.inputs import ReportInput
from autotune.views.report.sections import run_section
from autotune.views.report.setting_plots import choice_text


def page(inputs: ReportInput) -> str:
    """The whole report as HTML that works offline, in a light or a dark window and on paper."""
    return rendered("page.html.j2", _view(inputs))


def rendered(template: str, view: Mapping[str, Any]) -> str:
    """A template with what it shows, what words it, and plotly's script."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("autotune.views.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    known = {"words": words, "ratio_of": ratio_of, "ratio_to": ratio_to, "plotly": _plotly()}
    return environment.get_template(template).render(view, **known)


def figures(inputs: ReportInput) -> list[str]:
    """Every figure of the page as plotly's JSON, each with its name in ``layout.meta``."""
    html = page(inputs)
    return re.findall(r'<script type="application/json">(.*?)</script>', html, re.DOTALL)


@cache
def _plotly() -> str:
    """Plotly's script, gzipped, in base64: 4.8 MB become 1.9."""
    from plotly.offline import get_plotlyjs

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()


def _view(inputs: ReportInput) -> dict[str, Any]:
    made = steps(inputs.objectives, inputs.space, inputs.history)
    judged = candidates(inputs.objectives, inputs.space, inputs.history)
    known = sections.models(inputs, judged)
    baseline = _scores(inputs)
    chosen = inputs.recommendation
    return {
        "inputs": inputs,
        "tiles": [*_speedup_tiles(inputs), *_objective_tiles(inputs, judged, baseline), _effort_tile(inputs)],
        "changes": _changes(inputs),
        "covered": sections.covered(inputs),
        "ran": run_section(inputs.ran) if inputs.ran else None,
        "install": _install(inputs),
        "nodes": chosen.provenance.nodes if chosen is not None else 1,
        "launches": sections.launches(inputs, made),
        "advice": words.advice_text(chosen, inputs.space.unset) if chosen is not None else "",
        "unverified": chosen is not None and not chosen.provenance.checked.done,
        "tables": _tables(chosen),
        "baseline": baseline,
        "rounds": [_round(one) for one in reversed(inputs.rounds)],
        "front": _front(inputs, judged, baseline),
        "screening": _screening(inputs, made),
        "winners": sections.winner_maps(inputs, judged),
        "choice_text": choice_text,
        "settings": sections.settings(inputs, judged, known),
        "model": sections.model_section(inputs, known),
        "progress": sections.progress(inputs, made, judged),
        "provenance": _provenance(inputs),
    }


def _scores(inputs: ReportInput) -> tuple[Score, ...] | None:
    """The scores of the stack's own defaults; None where they were not measured completely."""
    judged = [score(objective, inputs.baseline) for objective in inputs.objectives]
    complete = tuple(s for s in judged if s is not None)
    return complete if complete and len(complete) == len(judged) else None


def _speedup_tiles(inputs: ReportInput) -> Iterable[dict[str, str]]:
    chosen = inputs.recommendation
    if chosen is None or not chosen.gains:
        return
    verdicts = [words.verdict(gain) for gain in chosen.gains]
    ratio, interval, where = chosen.speedup, speedup_interval(chosen), "in the search, not verified"
    if chosen.average is not None:
        where = f"on {launches_behind(inputs.rounds, chosen.point)} fresh launches"
    yield {
        "name": f"speed-up over {len(verdicts)} sizes, geometric mean",
        "value": words.ratio_text(ratio),
        "note": f"{words.interval_text(interval)} {where}".strip(),
    }
    yield {
        "name": "sizes faster than the default",
        "value": f"{verdicts.count('faster')} of {len(verdicts)}",
        "note": f"{verdicts.count('even')} no clear difference, {verdicts.count('slower')} slower",
    }


def _objective_tiles(
    inputs: ReportInput, judged: Sequence[Candidate], baseline: tuple[Score, ...] | None
) -> Iterable[dict[str, str]]:
    if inputs.idle and baseline is not None:  # what the search had seen of them is one launch among many
        for objective, own in zip(inputs.objectives, baseline, strict=True):
            value = words.figure_text(own.value, unit=objective.unit)
            yield {"name": f"{objective.name}, the stack's own", "value": value, "note": "left as it is"}
        return
    candidate = _recommended(inputs, judged)
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


def _effort_tile(inputs: ReportInput) -> dict[str, str]:
    failed, spent_s = sum(not o.ok for o in inputs.history), sum(o.duration_s for o in inputs.history)
    note = f"{failed} failed, {words.duration_text(spent_s)} in launches"
    return {"name": "launches", "value": str(len(inputs.history)), "note": note}


def _changes(inputs: ReportInput) -> list[tuple[Any, ...]]:
    """(parameter, recommended, default, unit, what it is, its effect) of each changed value."""
    if inputs.recommendation is None:
        return []
    default, known = inputs.unset, {p.name: p for p in (inputs.whole or inputs.space).job}
    return [
        (n, v, default.get(n), *_meaning(known.get(n)), _alone(inputs, n, v))
        for n, v in inputs.recommendation.point.items()
        if default.get(n) != v
    ]


def _meaning(parameter: Parameter | None) -> tuple[str, str]:
    """Unit and description: bytes where values are written as ``64k``, or the unit that its library names."""
    if parameter is None:
        return "", ""
    text = parameter.description
    if any(re.fullmatch(r"\d+[kmg]b?", str(value), re.IGNORECASE) for value in parameter.values):
        return "bytes", text
    named = re.search(r"\b(?:bytes|microseconds|usec|seconds)\b", text.lower()) if parameter.scale else None
    unit = named[0] if named else ""
    return {"usec": "µs", "microseconds": "µs", "seconds": "s"}.get(unit, unit), text


def _install(inputs: ReportInput) -> str:
    """The command that installs the exported files; empty: there are none, or they set nothing."""
    if not inputs.exports or not inputs.use:
        return ""
    return f"autotune install {quote(str(Path(inputs.exports[0]).parent.parent))}"


def _alone(inputs: ReportInput, name: str, value: object) -> str:
    """Where the discovery saw the largest significant effect of one value; empty: it saw none."""
    found = inputs.discovery or {"rows": (), "sizes": ()}
    for label, _, cells in found["rows"]:
        if f"{label} ".startswith(f"{name} = {value} "):
            pairs = zip(cells, found["sizes"], strict=True)
            ratios = [(text, size) for (text, style), size in pairs if style != "even"]
            if ratios:
                ratio, size = max(ratios, key=lambda one: abs(math.log(float(one[0]) or 1.0)))
                return f"{ratio}× at {size}"
    return ""


def _tables(chosen: Recommendation | None) -> list[dict[str, Any]]:
    """One for each collective and communicator size: a figure and the rows at the measured sizes."""
    if chosen is None:
        return []
    tables = []
    for (collective, comm_size), group in groupby(size_rows(chosen), key=lambda row: row.gain.slot[:2]):
        rows = list(group)
        ratios = [row.gain.ratio for row in rows]
        tables.append({
            "title": words.calls_text(collective, comm_size),
            "figure": plots.curves([row.gain for row in rows]),
            "names": list(dict.fromkeys(name for row in rows for name in row.choice)),
            "other_loop": any(row.gain.other_loop for row in rows),
            "rows": rows,
            # One wild ratio must not hide the others.
            "longest": max(min(max(ratios), 3 * median(ratios)), 1.0),
        })  # fmt: skip
    return tables


def _round(one: VerificationRound) -> dict[str, Any]:
    groups = []
    for (collective, comm_size), group in groupby(one.judged, key=lambda c: c.slot[:2]):
        judged = list(group)
        figure = plots.verification(judged, one.blocks, one.setting.gains)
        groups.append({"title": words.calls_text(collective, comm_size), "figure": figure, "judged": judged})
    return {"its": one, "searched": {gain.slot: gain for gain in one.setting.gains}, "groups": groups}


def _front(
    inputs: ReportInput, judged: Sequence[Candidate], baseline: tuple[Score, ...] | None
) -> dict[str, Any] | None:
    if not judged:
        return None
    best, chosen = pareto_front(inputs.objectives, judged), _recommended(inputs, judged)
    drawn = (inputs.objectives, judged, best, chosen, inputs.space.unset, baseline)
    figure = plots.front(*drawn) if len(inputs.objectives) > 1 else None
    return {"figure": figure, "n_tried": len(judged), "best": best, "chosen": chosen}


def _recommended(inputs: ReportInput, judged: Sequence[Candidate]) -> Candidate | None:
    if inputs.recommendation is None:
        return None
    shared = {p.name for p in inputs.space.job if not p.per_size}
    wanted = inputs.recommendation.point.restricted(shared)
    return next((c for c in judged if c.point.restricted(shared) == wanted), None)


def _screening(inputs: ReportInput, made: Sequence[Step]) -> dict[str, Any] | None:
    if not inputs.effects:
        return None
    pairs = list(zip(inputs.objectives, inputs.effects, strict=True))
    return {
        "figures": [screening_plots.effects(*pair) for pair in pairs],
        "pareto": [screening_plots.pareto(*pair) for pair in pairs],
        "half_normal": [
            screening_plots.half_normal(objective, analysis)
            for objective, analysis in pairs
            if any(math.isfinite(effect.half_normal) for effect in analysis.effects)
        ],
        "surfaces": _surfaces(inputs, made),
        "n_runs": inputs.effects[0].n_runs,
        "decisions": {d.factor: d for d in inputs.screening.decisions} if inputs.screening else {},
        "notes": list(dict.fromkeys(note for analysis in inputs.effects for note in analysis.notes)),
    }


def _surfaces(inputs: ReportInput, made: Sequence[Step]) -> list[str]:
    """A figure for each objective over the two strongest ordered parameters, where there are two."""
    both = strongest(inputs.space, inputs.effects, inputs.screening) if inputs.screening else ()
    if not both:
        return []
    drawn = [(its, contours(its, i, both, made)) for i, its in enumerate(inputs.objectives)]
    return [screening_plots.surface(objective, its) for objective, its in drawn if its is not None]


def _provenance(inputs: ReportInput) -> list[tuple[str, str]]:
    chosen = inputs.recommendation
    hosts = dict.fromkeys(host for o in inputs.history for host in o.hosts)
    said: Mapping[str, str] = {} if chosen is None else {
        "stack": chosen.provenance.stack,
        "size": f"{chosen.provenance.ranks} ranks, nodes: {chosen.provenance.nodes}",
        "last launch": chosen.provenance.date,
        "verification": chosen.provenance.verified,
        "environment": ", ".join(f"{name}={value}" for name, value in chosen.provenance.env),
        "placement": ", ".join(f"{name} {value}" for name, value in chosen.provenance.placement),
    }  # fmt: skip
    space = inputs.space
    shape = f"{space.name}, {len(space.parameters)} parameters, fingerprint {space.fingerprint}"
    defaults = sum(o.trial.subject is Subject.UNTOUCHED for o in inputs.history)
    rows = [*said.items(), ("hosts", ", ".join(hosts)), ("space", shape)]
    rows += [("baseline", f"{defaults} launches with nothing set")] if defaults else []
    rows += [(remark.what, remark.text) for remark in inputs.remarks]
    return [(what, text) for what, text in rows if text]
