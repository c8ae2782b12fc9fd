"""``conf=site``: a campaign for each job size of a site, small ones first, and one set of files.

A directory of a site has its wishes in ``site.json`` and an ordinary campaign for each job in ``jobs/``:
resuming is resuming these. Which job comes next, what is predicted for those that were not made, and the
files are functions of the journals alone.
"""

import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.campaign.observing import measurement_of
from autotune.campaign.site import Site
from autotune.collectives import MEASURED
from autotune.commands.tune import tune
from autotune.errors import CampaignError, ExitCode, ScenarioError, UserError, allowed
from autotune.exporters.export_check import check_export
from autotune.exporters.files import export_files, how_to_use, unused
from autotune.exporters.writing import write_files
from autotune.history.events import State
from autotune.history.folder import FILE, WISHES
from autotune.history.trial import Phase, Rule, Subject
from autotune.recommend.recommendation import Checked, Part, Recommendation
from autotune.resources import user_text
from autotune.scenario import Scenario, sizes_of
from autotune.site import DEFAULT, Decision, Measured, Shape, bounds, calibrated, decide, fitted, outcomes
from autotune.site.planning import agreed, loss_removed, node_bytes, predicted_rules
from autotune.space import Point
from autotune.stacks import dialect
from autotune.structure import Document, plain
from autotune.verification.choices import ChoiceKind
from autotune.views.site_map import site_page

_FIRST = 2  # Node counts that are measured before a model is asked: one tells nothing of another.
Compose = Callable[[dict[str, Any]], tuple[Scenario, Site]]  # A job's configuration → where it is made.


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a site wants tuned."""

    collectives: tuple[str, ...]
    nodes: tuple[int, ...]
    ppn: tuple[int, ...]
    memory_gib: float | None  # Of a node; None: as much as the machine that asks has.
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        """Check what the types do not say.

        Raises:
            ScenarioError: an unknown collective, no number above zero, or a call that no node has memory for.
        """
        for name in self.collectives:
            if name not in MEASURED:
                raise ScenarioError(f"site.collectives={name}", allowed(name, MEASURED))
        for key in ("collectives", "nodes", "ppn"):
            values = getattr(self, key)
            if not values or any(isinstance(v, int) and v < 1 for v in values):
                raise ScenarioError(f"site.{key}={list(values)}", "expected one at least, numbers above zero")
        if all(nodes * ppn < 2 for nodes, ppn in self.jobs):
            raise ScenarioError("site.nodes and site.ppn make no job of two ranks", "a collective needs two")
        room, worst = self.room_bytes, max((s for job in self.jobs for s in self.shapes(job)), key=node_bytes)
        if node_bytes(worst) > room:
            fit = [b for b in self.sizes if node_bytes(replace(worst, message_bytes=b)) <= room]
            raise ScenarioError(
                f"{worst.collective} of {worst.message_bytes} bytes on {worst.ranks} ranks takes "
                f"{node_bytes(worst) / 2**30:.3g} GiB of a node, which has {room / 2**30:.3g}",
                f"sizes up to {max(fit)} fit there" if fit else "no size fits there: fewer nodes or ppn",
            )

    @property
    def room_bytes(self) -> float:
        """Memory of a node."""
        if self.memory_gib is not None:
            return self.memory_gib * 2**30
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))

    @property
    def jobs(self) -> tuple[tuple[int, int], ...]:
        """(nodes, ppn) of each, small ones first."""
        pairs = {(n, p) for n in self.nodes for p in self.ppn if n * p > 1}
        return tuple(sorted(pairs, key=lambda job: (job[0], job[1])))

    def shapes(self, job: tuple[int, int]) -> list[Shape]:
        """What a job measures."""
        return [Shape(c, *job, size) for c in self.collectives for size in self.sizes]


@dataclass(frozen=True)
class SiteDirectory:
    """A site's campaigns as their journals tell them."""

    path: Path
    wishes: Wishes
    campaigns: Mapping[tuple[int, int], CampaignDirectory]  # Those that were begun, by (nodes, ppn).

    @property
    def node_hours(self) -> float:
        """Used so far."""
        return sum(job[0] * sum(o.duration_s for o in c.history) for job, c in self.campaigns.items()) / 3600

    @cached_property
    def choices(self) -> dict[str, Point]:
        """What names of choices mean."""
        cells = (e.cell for c in self.campaigns.values() for o in c.history for e in o.usable)
        return {str(cell.choice): cell.choice for cell in cells if cell.choice}

    @cached_property
    def measured(self) -> list[Measured]:
        """All jobs' times, a row for each shape and choice, of job-wide values as the library has them."""
        found: dict[tuple[Shape, str], list[float]] = {}
        for job, campaign in self.campaigns.items():
            usual = campaign.about.space.default
            for o in campaign.history:
                untouched = o.trial.subject is Subject.UNTOUCHED
                if o.trial.phase is Phase.VERIFY or not (untouched or o.trial.point == usual):
                    continue
                for e in o.usable:
                    if e.cell.comm_size == job[0] * job[1] and untouched != bool(e.cell.choice):
                        shape = Shape(e.cell.collective, *job, e.cell.message_bytes)
                        choice = DEFAULT if untouched else str(e.cell.choice)
                        found.setdefault((shape, choice), []).append(math.log(e.median_s))
        return [_one(shape, choice, logs) for (shape, choice), logs in found.items()]

    @cached_property
    def recommended(self) -> dict[tuple[int, int], Recommendation]:
        """Of the jobs that have one."""
        found = ((job, c.conclude().recommendation) for job, c in self.campaigns.items())
        return {job: one for job, one in found if one is not None}

    @cached_property
    def z(self) -> float | None:
        """Standard deviations below the expected gain that a prediction needs; None: none is made."""
        return calibrated(outcomes(self.measured, fitted(self.measured).scales)) if self.measured else None

    @cached_property
    def decided(self) -> list[Decision]:
        """All shapes of the jobs without a recommendation.

        Only what verified rules of a smaller job choose is predicted for a larger one.
        """
        left = [job for job in self.wishes.jobs if job not in self.recommended]
        asked = [shape for job in left for shape in self.wishes.shapes(job)]
        if not self.measured or not asked:
            return [Decision(shape, DEFAULT) for shape in asked]
        ruled = {(r.collective, str(r.choice)) for one in self.recommended.values() for r in one.rules}
        said = bounds(fitted(self.measured), asked)
        return decide({s: [b for b in said[s] if (s.collective, b[0]) in ruled] for s in asked}, self.z)

    def recommendation(self) -> Recommendation:
        """One set of rules of all jobs, measured or predicted.

        Raises:
            UserError: no job recommends anything yet, or their stacks differ.
        """
        if not self.recommended:
            raise UserError(f"{self.path} recommends nothing yet", "its first job has to be measured")
        parts = list(self.recommended.values())
        stacks = dict.fromkeys(one.provenance.stack for one in parts)
        if len(stacks) > 1:
            raise UserError(
                f"{self.path}: its jobs ran on {' and on '.join(stacks)}",
                "ids and defaults differ between versions: another campaign.dir for each",
            )
        tables: dict[tuple[str, int], list[Sequence[Rule]]] = {}
        for job, one in self.recommended.items():
            for collective in self.wishes.collectives:
                mine = [r for r in one.rules if r.collective == collective]
                tables.setdefault((collective, job[0] * job[1]), []).append(mine)
        one_row = dialect(self.first.about.space.stack).one_row
        for shape, rules in predicted_rules(self.decided, self.choices, one_row).items():
            tables.setdefault((shape.collective, shape.ranks), []).append(rules)
        rules = tuple(rule for _, several in sorted(tables.items()) for rule in agreed(several))
        base = max(parts, key=lambda one: any(r.sets for r in one.rules)).provenance
        predicted = sum(one.choice != DEFAULT for one in self.decided)
        doubts = [one.provenance.checked for one in parts if not one.provenance.checked.done]
        holds = sum(one.provenance.checked is Checked.HOLDS for one in parts)
        text = f"{holds} of {len(parts)} jobs verified on fresh launches"
        provenance = replace(
            base,
            campaign="site",
            date=max(one.provenance.date for one in parts),
            nodes=max(one.provenance.nodes for one in parts),
            ranks=max(one.provenance.ranks for one in parts),
            verified=f"UNVERIFIED: {predicted} predicted; {text}" if predicted else text,
            checked=Checked.UNFINISHED if predicted else next(iter(doubts), base.checked),
            parts=tuple(_part(one) for one in parts),
        )
        gains = tuple(gain for one in parts for gain in one.gains)
        return Recommendation(Point.of(parts[0].point), rules, gains, provenance)

    @property
    def first(self) -> CampaignDirectory:
        """The campaign of its smallest job."""
        return next(iter(self.campaigns.values()))


def _one(shape: Shape, choice: str, logs: Sequence[float]) -> Measured:
    mean = sum(logs) / len(logs)
    spread = math.sqrt(sum((v - mean) ** 2 for v in logs) / max(len(logs) - 1, 1) / len(logs))
    return Measured(shape, choice, math.exp(mean), spread)


def _part(one: Recommendation) -> Part:
    tables = dict.fromkeys((rule.collective, rule.comm_size) for rule in one.rules)
    return Part(one.provenance.campaign, one.provenance.date, one.provenance.nodes, tuple(tables))


def recommended(directory: Path, kind: ChoiceKind = ChoiceKind.RECOMMENDED) -> Recommendation:
    """What a campaign recommends, or all those of a site together.

    Raises:
        UserError: nothing yet, or a choice of a site other than the recommended one.
    """
    if not is_site(directory):
        return read_campaign(directory).recommended(kind)
    if kind is not ChoiceKind.RECOMMENDED:
        raise UserError(f"{directory} is a whole site: it has no choice {kind}", "leave --choice out")
    return read_site(directory).recommendation()


def site_status(directory: Path, as_json: bool) -> None:
    """Print how far a site is."""
    site = read_site(directory)
    document = {
        "node_hours": site.node_hours,
        "z": site.z,
        "jobs": [
            {"nodes": n, "ppn": p, "state": c.state.value, "launches": len(c.history)}
            for (n, p), c in site.campaigns.items()
        ],
        "predicted": sum(one.choice != DEFAULT for one in site.decided),
        "slots_not_measured": len(site.decided),
    }
    sys.stdout.write(json.dumps(plain(document)) + "\n" if as_json else status_text(site))


def site_report(directory: Path, out: Path | None) -> None:
    """Write the page of a site with its map."""
    site, target = read_site(directory), out or directory / "report.html"
    page = site_page(f"Site {directory.name}", status_text(site).splitlines(), cells(site))
    write_files({target: page}, links=out is not None)
    sys.stdout.write(f"{target}\n")


def is_site(directory: Path) -> bool:
    """Whether a directory is a site's."""
    return (directory / WISHES).is_file()


def read_site(directory: Path) -> SiteDirectory:
    """The site in a directory.

    Raises:
        UserError: its wishes cannot be read.
        JournalError: a journal is damaged.
    """
    path = directory / WISHES
    try:
        document = json.loads(user_text(path))
    except ValueError as exc:
        raise UserError(f"{path} cannot be read: {exc}", "the command that began the site writes it") from exc
    wishes = Document(str(path), UserError, own=True).structured(Wishes, document)
    begun = {job: read_campaign(_folder(directory, job)) for job in wishes.jobs if _begun(directory, job)}
    return SiteDirectory(directory, wishes, begun)


def wishes_of(document: Mapping[str, Any]) -> Wishes:
    """What a composed configuration wants.

    Raises:
        ScenarioError: an unknown key, or a value that is not allowed.
    """
    asked = {**document["site"], "sizes": sizes_of(document["sizes"])}
    return Document("site", ScenarioError).structured(Wishes, asked)


def tune_site(document: Mapping[str, Any], compose: Compose, quiet: bool = False) -> int:
    """Make the jobs of a site one after another, as far as its node-hours go, and write its files.

    Returns:
        The exit code, the worst of the jobs'.

    Raises:
        ScenarioError: the directory holds a site with other wishes.
        CampaignError: no job could be measured.
    """
    wishes, root = wishes_of(document), Path(document["campaign"]["dir"])
    if is_site(root) and read_site(root).wishes != wishes:
        raise ScenarioError(f"{root} holds a site with other wishes", "campaign.dir=… for another")
    write_files({root / WISHES: json.dumps(plain(wishes)) + "\n"}, parents=True)
    code, tried = int(ExitCode.WELL), set[tuple[int, int]]()
    places: list[tuple[Scenario, Site]] = []
    while (upcoming := _next(read_site(root), document, tried)) is not None:
        job, why = upcoming
        tried.add(job)
        sys.stdout.write(f"\n{_name(job)}: {why}\n")
        sys.stdout.flush()
        scenario, place = compose(_job(document, root, job, read_site(root).node_hours))
        places.append((place.asked(scenario), place))
        try:
            code = max(code, tune(place.asked(scenario), place, quiet))
        except CampaignError as exc:  # the other jobs may do
            sys.stderr.write(f"{_name(job)}: {exc}\n")
            code = max(code, int(exc.exit_code))
    site = read_site(root)
    recommendation = site.recommendation()
    formats = tuple(document.get("export") or ()) or dialect(site.first.about.space.stack).formats
    if places:
        export_files(recommendation, formats, root / "export")
    for scenario, place in places if formats else ():
        if place.stack is None:
            continue
        measurement = measurement_of(scenario, place.placement.ranks)
        proof = check_export(
            formats, recommendation, root / "export", place.observer, measurement, place.whole
        )
        if proof is not None:
            sys.stdout.write(f"{place.placement.ranks} ranks: {proof}\n")
            code = max(code, int(ExitCode.FINDING) if proof.refutes else 0)
    sys.stdout.write(f"{status_text(site)}{_use(recommendation, formats, root / 'export')}\n")
    return code


def _use(recommendation: Recommendation, formats: Sequence[str], folder: Path) -> str:
    line = how_to_use(recommendation, formats, folder)
    return f"use it with:\n  {line}" if line else unused(recommendation, folder)


def plan_site(document: Mapping[str, Any], compose: Compose) -> int:
    """Print the jobs of a site, what each takes, and which of them its node-hours reach.

    The jobs' own order is decided as they are measured; planned is from small to large.
    """
    del compose  # nothing is launched, so that no place is asked for
    wishes, root = wishes_of(document), Path(document["campaign"]["dir"])
    site = read_site(root) if is_site(root) else SiteDirectory(root, wishes, {})
    most, spent = _hours(document), site.node_hours
    lines = [f"{'nodes':>6} {'ppn':>4} {'ranks':>6} {'node-hours':>10} {'GiB/node':>8}"]
    for job in wishes.jobs:
        done = _complete(site, job)
        cost = 0.0 if done else _cost_h(site, document, job)
        fits = spent + cost <= most
        spent += cost if fits else 0.0
        room = max(map(node_bytes, wishes.shapes(job))) / 2**30
        what = "measured already" if done else "measured" if fits else "predicted, or left to the library"
        lines.append(f"{job[0]:6} {job[1]:4} {job[0] * job[1]:6} {cost:10.2f} {room:8.2f}  {what}")
    slots = len(wishes.jobs) * len(wishes.shapes(wishes.jobs[0]))
    limit = f" of {most:g}" if math.isfinite(most) else ""
    known = "launches as long as so far" if site.campaigns else "starting ranks comes on top"
    lines.append(f"together {spent:.2f}{limit} node-hours ({known}), {slots} slots in {root}")
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return ExitCode.WELL


def status_text(site: SiteDirectory) -> str:
    """How far a site is, a line for each job."""
    lines = []
    for job in site.wishes.jobs:
        if job in site.campaigns:
            campaign = site.campaigns[job]
            lines.append(f"{_name(job)}: {campaign.state.value}, {len(campaign.history)} launches")
        else:
            mine = [one for one in site.decided if (one.shape.nodes, one.shape.ppn) == job]
            n = sum(one.choice != DEFAULT for one in mine)
            lines.append(
                f"{_name(job)}: not measured; {n} of {len(mine)} slots predicted, the library's else"
            )
    doubt = (
        f"a prediction needs a gain above {site.z:g} standard deviations"
        if site.z
        else ("nothing is predicted: too few node counts were measured to say how predictions do")
    )
    return "\n".join([*lines, f"{site.node_hours:.2f} node-hours used; {doubt}\n"])


def _next(
    site: SiteDirectory, document: Mapping[str, Any], tried: set[tuple[int, int]]
) -> tuple[tuple[int, int], str] | None:
    """The job to make next, and why; None: none is left that fits the budget and would tell more."""
    left_h = _hours(document) - site.node_hours
    left = [job for job in site.wishes.jobs if job not in tried and not _complete(site, job)]
    left = [job for job in left if _cost_h(site, document, job) <= left_h]
    begun = [job for job in left if job in site.campaigns]
    if begun:
        return begun[0], "continued"
    if not left:
        return None
    if len({nodes for nodes, _ in site.campaigns}) < _FIRST or not site.measured:
        return left[0], "small jobs come first"
    model = fitted(site.measured)
    mine = {job: [d for d in site.decided if (d.shape.nodes, d.shape.ppn) == job] for job in left}
    worth = {job: loss_removed(model, mine[job]) for job in left}
    best = max(left, key=lambda job: worth[job] / _cost_h(site, document, job))
    if worth[best] <= 0:
        return None
    return best, f"expected to gain {worth[best] / len(mine[best]):.1%} a slot, most for its node-hours"


def _cost_h(site: SiteDirectory, document: Mapping[str, Any], job: tuple[int, int]) -> float:
    """Node-hours that a job takes: its launches as long as those so far, before any as they measure."""
    budget, verify = document["budget"], document["verify"]
    launches = budget["launches"] + (verify["launches"] if verify["enabled"] else 0)
    took = [o.duration_s for c in site.campaigns.values() for o in c.history if o.ok]
    each_s = sum(took) / len(took) if took else document["probe"]["budget_s"]
    done = len(site.campaigns[job].history) if job in site.campaigns else 0
    return float(max(launches - done, 1) * job[0] * each_s / 3600)


def _hours(document: Mapping[str, Any]) -> float:
    hours = document["budget"].get("node_hours")
    return math.inf if hours is None else float(hours)


def _job(document: Mapping[str, Any], root: Path, job: tuple[int, int], spent_h: float) -> dict[str, Any]:
    """The configuration of one job."""
    budget = {**document["budget"]}
    if math.isfinite(_hours(document)):
        budget["node_hours"] = max(_hours(document) - spent_h, 1e-3)
    own = {key: value for key, value in document.items() if key != "site"}
    return own | {
        "collective": list(document["site"]["collectives"]),
        "cluster": {**document["cluster"], "nodes": job[0], "ppn": job[1], "ranks": job[0] * job[1]},
        "campaign": {**document["campaign"], "dir": str(_folder(root, job)), "fresh": False},
        "budget": budget,
    }


def _complete(site: SiteDirectory, job: tuple[int, int]) -> bool:
    return job in site.campaigns and site.campaigns[job].state is State.COMPLETE


def _begun(root: Path, job: tuple[int, int]) -> bool:
    return (_folder(root, job) / FILE).is_file()


def _folder(root: Path, job: tuple[int, int]) -> Path:
    return root / "jobs" / f"{job[0]}x{job[1]}"


def _name(job: tuple[int, int]) -> str:
    return f"{job[0]} × {job[1]} ranks"


def cells(site: SiteDirectory) -> Iterator[tuple[Shape, float, bool]]:
    """Every shape with its gain as default / tuned, and whether that is predicted; 1: the library's."""
    by_slot = {(job, gain.slot): gain.ratio for job, one in site.recommended.items() for gain in one.gains}
    for job in site.recommended:
        for shape in site.wishes.shapes(job):
            slot = (shape.collective, shape.ranks, shape.message_bytes)
            yield shape, by_slot.get((job, slot), 1.0), False
    for made in site.decided:
        yield made.shape, math.exp(made.gain), made.choice != DEFAULT
