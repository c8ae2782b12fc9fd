"""A directory of a site: its wishes, the campaigns of its jobs, and what they say together."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TypeVar

from autotune.campaign.conclusion import Conclusion, under
from autotune.campaign.directory import CampaignDirectory, find_campaign, read_campaign
from autotune.commands import site_rules
from autotune.commands.kept_status import is_site
from autotune.commands.site_load import UNDER_LOAD, Loads, UnderLoad, robust
from autotune.errors import SpaceError, UserError
from autotune.history.events import State
from autotune.history.folder import WISHES
from autotune.history.trial import Phase, Subject
from autotune.recommend.recommendation import Checked, Recommendation
from autotune.resources import user_text
from autotune.scenario.whole_site import Job, Wishes
from autotune.site import (
    DEFAULT,
    LOSS,
    Decision,
    Measured,
    Offered,
    Shape,
    Transfer,
    apart,
    bounds,
    calibrated,
    common,
    decide,
    fitted,
    of_sample,
    outcomes,
)
from autotune.space import Point
from autotune.stacks import dialect
from autotune.structure import Document, parsed
from autotune.verification.choices import ChoiceKind
from autotune.verification.deployed import deploys

T = TypeVar("T")
SAMPLE = "sample.json"  # In a directory of a site: what was predicted of the job that was then measured.
SAMPLED = 2  # Launches of a sample: one of the defaults, one that sweeps every choice.


@dataclass(frozen=True, slots=True)
class Sample:
    """Predictions, written down before their job was measured."""

    job: Job
    z: float  # Standard deviations that a prediction needed then.
    predicted: tuple[Decision, ...]

    def __post_init__(self) -> None:
        """Refuse what no site writes.

        Raises:
            UserError: a number of standard deviations that is not positive.
        """
        if not self.z > 0:
            raise UserError(f"{SAMPLE}: z={self.z}", "expected a number above zero")


@dataclass(frozen=True)
class SiteDirectory:
    """A site's campaigns as their journals have them."""

    path: Path
    wishes: Wishes
    campaigns: Mapping[Job, CampaignDirectory]  # Those that were begun.
    sample: Sample | None = None
    loads: Mapping[Job, Loads] = field(default_factory=dict)  # Of jobs that were launched under load.

    @property
    def node_hours(self) -> float:
        """Used so far."""
        alone_s = sum(job[0] * sum(o.duration_s for o in c.history) for job, c in self.campaigns.items())
        loaded_s = sum(job[0] * one.took_s for job, by in self.loads.items() for one in by.found)
        return (alone_s + loaded_s) / 3600

    def _robust(self, job: Job, one: Recommendation) -> Recommendation:
        return robust(one, self.under_load(job, one), dialect(self.campaigns[job].about.space.stack).one_row)

    def under_load(self, job: Job, one: Recommendation) -> UnderLoad | None:
        """How a job's setting did under load; None: it was not seen there."""
        return self.loads.get(job, Loads()).of(self._setting(job, one))

    def _setting(self, job: Job, one: Recommendation) -> str:
        return str(self._changes(job, one.point) or "")

    @property
    def not_loaded(self) -> Iterator[tuple[Job, str, Recommendation]]:
        """Jobs whose chosen setting was not seen under load, with its changes."""
        for job, one in self.chosen.items():
            if deploys(self.campaigns[job].about.space, one) and self.under_load(job, one) is None:
                yield job, self._setting(job, one), one

    @cached_property
    def settings(self) -> tuple[Point, ...]:
        """Job-wide changes that any job recommends; the first one is none."""
        own = (self._changes(job, one.point) for job, one in self.recommended.items())
        return tuple(dict.fromkeys((Point(), *own)))

    def _changes(self, job: Job, point: Point) -> Point:
        space = self.campaigns[job].about.space
        return space.changes(point).restricted(space.job_wide)

    def _meaning(self, job: Job, here: Point) -> list[Point]:
        """The settings that are these changes in a job: what its space lacks has no effect there."""
        known = self.campaigns[job].about.space.job_wide
        return [setting for setting in self.settings if setting.restricted(known) == here]

    @cached_property
    def choices(self) -> dict[str, Point]:
        """Per-size values by the names of choices."""
        cells = (e.cell for c in self.campaigns.values() for o in c.history for e in o.usable)
        swept = {cell.choice for cell in cells if cell.choice}
        return {_named(setting, choice): choice for choice in swept for setting in self.settings}

    @cached_property
    def measured(self) -> list[Measured]:
        """All jobs' times, a row for each shape and choice, under these settings."""
        found: dict[tuple[Shape, str], list[float]] = {}
        for job, campaign in self.campaigns.items():
            for o in (o for o in campaign.history if o.trial.phase is not Phase.VERIFY):
                untouched = o.trial.subject is Subject.UNTOUCHED
                under = [Point()] if untouched else self._meaning(job, self._changes(job, o.trial.point))
                cells = ((e, e.cell) for e in o.usable if e.cell.comm_size == job[0] * job[1])
                for (e, cell), setting in product(cells, under):
                    if untouched != bool(cell.choice):
                        shape = Shape(cell.collective, *job, cell.message_bytes)
                        choice = DEFAULT if untouched else _named(setting, cell.choice)
                        found.setdefault((shape, choice), []).append(math.log(e.median_s))
        return [_one(shape, choice, logs) for (shape, choice), logs in found.items()]

    @property
    def sampled_job(self) -> Job | None:
        """The job of which no more than a sample was measured."""
        if self.sample is None or self.sample.job not in self.campaigns:
            return None
        launches = self.campaigns[self.sample.job].about.scenario.budget.launches
        return self.sample.job if launches <= SAMPLED else None

    def made(self, job: Job) -> bool:
        """Whether a job is complete, and more than a sample."""
        complete = job in self.campaigns and self.campaigns[job].state is State.COMPLETE
        return complete and job != self.sampled_job

    @cached_property
    def _concluded(self) -> dict[Job, Conclusion]:
        return {job: c.conclude() for job, c in self.campaigns.items() if job != self.sampled_job}

    @cached_property
    def recommended(self) -> dict[Job, Recommendation]:
        """Recommendations of the jobs that have one, each as if it were alone."""
        found = ((job, one.recommendation) for job, one in self._concluded.items())
        return {job: self._robust(job, one) for job, one in found if one is not None}

    @cached_property
    def offered(self) -> dict[Job, dict[Point, Recommendation]]:
        """Recommendations of each job under each of the settings; under others' by its search alone."""
        return {
            job: {s: one for s in self.settings if (one := self._under(job, s))} for job in self.recommended
        }

    def _under(self, job: Job, setting: Point) -> Recommendation | None:
        own, campaign = self.recommended[job], self.campaigns[job]
        space = campaign.about.space
        here = setting.restricted(space.job_wide)
        if here == self._changes(job, own.point):
            return own
        if not here:  # the library decides, and needs no proof
            source = replace(own.provenance, env=(), placement=(), boot=(), checked=Checked.REFUSED)
            return Recommendation(space.untouched, (), (), source)
        try:
            point = space.complete(dict(here))
        except SpaceError:  # a value that is not there
            return None
        found = under(campaign.about, campaign.history, point, own.provenance.date)
        return found and self._robust(job, found)

    @cached_property
    def _offers(self) -> dict[Job, dict[Point, Offered]]:
        return {
            job: {s: Offered(_logs(one), self._loses(job, one)) for s, one in by.items()}
            for job, by in self.offered.items()
        }

    def _loses(self, job: Job, one: Recommendation) -> bool:
        if (seen := self.under_load(job, one)) and seen.refused:
            return True
        if one.provenance.checked.done:
            return False
        verdict = self._concluded[job].verdict
        refused = any(r.loses for r in (verdict.rounds if verdict else ()) if r.setting.point == one.point)
        return refused or any(gain.ratio < 1 - LOSS and gain.interval[1] < 1 for gain in one.gains)

    @cached_property
    def common(self) -> Point:
        """The job-wide changes of all files: none that rules cannot say of the calls that were measured."""
        offers = self.offered.values()
        fit = [s for s in self.settings[1:] if all(s in by and site_rules.by_rules(by[s]) for by in offers)]
        return common(self._offers, Point(), fit)

    @cached_property
    def apart(self) -> dict[Job, Recommendation]:
        """Recommendations of the jobs that get files of their own."""
        found = apart(self._offers, self.common, math.log1p(self.wishes.split_gain))
        return {job: self._exact(self.offered[job][setting]) for job, setting in found.items()}

    def _exact(self, one: Recommendation) -> Recommendation:
        """The recommendation of a job for files: what it sets holds where it was measured."""
        words = dialect(self.first.about.space.stack)
        one = site_rules.handing_over(one, words.one_row) if site_rules.sets_han_aside(one) else one
        return replace(one, rules=site_rules.exact(one.rules)) if words.by_ranks else one

    @cached_property
    def chosen(self) -> dict[Job, Recommendation]:
        """Recommendations of the files for each measured job."""
        return {job: self.apart.get(job, by[self.common]) for job, by in self.offered.items()}

    @cached_property
    def model(self) -> Transfer:
        """The model of all that was measured."""
        return fitted(self.measured)

    @cached_property
    def z(self) -> float | None:
        """Standard deviations below the expected gain that a prediction needs; None: none is made."""
        z = calibrated(outcomes(self.measured)) if self.measured else None
        if z is None or self.sample is None:
            return z
        sampled = of_sample(self.judged, self.sample.z)
        return None if sampled is None else max(z, sampled)

    @cached_property
    def judged(self) -> list[tuple[Decision, bool]]:
        """The sample's predictions that were measured since, and whether each was a loss."""
        times = {(m.shape, m.choice): m.time_s for m in self.measured}
        pairs = (
            (made, times.get((made.shape, made.choice)), times.get((made.shape, DEFAULT)))
            for made in (self.sample.predicted if self.sample else ())
        )
        return [(made, mine > (1 + LOSS) * usual) for made, mine, usual in pairs if mine and usual]

    @property
    def sample_text(self) -> str:
        """How the sample did and what followed, in words; empty: there is none."""
        if self.sample is None:
            return ""
        lost, z, job = sum(lost for _, lost in self.judged), self.sample.z, self.sample.job
        said = f"sample: of {len(self.judged)} predictions for {job[0]} × {job[1]} ranks "
        said += f"{lost} proved more than {LOSS:.0%} slower"
        if not lost:
            return said
        now = "nothing is predicted any more" if self.z is None else f"{self.z:g} are needed now"
        return f"{said}; predictions needed {z:g} standard deviations before, {now}"

    @cached_property
    def predicted_jobs(self) -> list[Job]:
        """Jobs of which anything is predicted."""
        shapes = (one.shape for one in self.decided if one.choice != DEFAULT)
        return sorted({(shape.nodes, shape.ppn) for shape in shapes})

    @cached_property
    def decided(self) -> list[Decision]:
        """All shapes of the jobs without a recommendation.

        Only what verified rules of a smaller job choose is predicted for a larger one.
        """
        return self._decided(self.common)

    def _decided(self, setting: Point) -> list[Decision]:
        left = [job for job in self.wishes.jobs if job not in self.recommended]
        asked = [Shape(*slot) for job in left for slot in self.wishes.slots(job)]
        if not self.measured or not asked:
            return [Decision(shape, DEFAULT) for shape in asked]
        ruled = {
            (rule.collective, _named(setting, rule.choice))
            for job, one in self.recommended.items()
            if setting in self._meaning(job, self._changes(job, one.point))
            for rule in one.rules
        }
        said = bounds(self.model, asked)
        return decide({s: [b for b in said[s] if (s.collective, b[0]) in ruled] for s in asked}, self.z)

    def decided_for(self, job: Job) -> list[Decision]:
        """Shapes of one of these jobs."""
        return [one for one in self.decided if (one.shape.nodes, one.shape.ppn) == job]

    def recommendation(self) -> Recommendation:
        """One set of rules of all jobs, measured or predicted.

        Raises:
            UserError: no job recommends anything yet, or their stacks differ.
        """
        if not self.recommended:
            raise UserError(f"{self.path} recommends nothing yet", "its first job has to be measured")
        words = dialect(self.first.about.space.stack)
        parts = [by[self.common] for by in self.offered.values()]
        if aside := any(map(site_rules.sets_han_aside, parts)):
            parts = [site_rules.handing_over(one, words.one_row) for one in parts]
        stacks = dict.fromkeys(one.provenance.stack for one in parts)
        if len(stacks) > 1:
            raise UserError(
                f"{self.path}: its jobs ran on {' and on '.join(stacks)}",
                "ids and defaults differ between versions: another campaign.dir for each",
            )
        within = {job: self.campaigns[job].about.scenario.cluster.comm_sizes for job in self.offered}
        predicted_tables = site_rules.predicted_rules(self.decided, self.choices, words.one_row, aside)
        made = dict(zip(self.offered, parts, strict=True))
        rules = site_rules.together(self.wishes.collectives, made, within, predicted_tables, words.one_row)
        rules = site_rules.exact(rules) if words.by_ranks else rules
        first = max(parts, key=lambda one: (len(one.provenance.env), any(r.sets for r in one.rules)))
        base = first.provenance
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
            parts=tuple(site_rules.part(one) for one in parts),
        )
        gains = tuple(gain for one in parts for gain in one.gains)
        point = self.first.about.space.untouched if aside else first.point  # which rules say in its place
        return Recommendation(Point.of(point), rules, gains, provenance)

    @property
    def first(self) -> CampaignDirectory:
        """The campaign of its smallest job."""
        return next(iter(self.campaigns.values()))


def _named(setting: Point, choice: Point) -> str:
    return f"{setting}; {choice}" if setting else str(choice)


def _logs(one: Recommendation) -> list[float]:
    return [math.log(gain.ratio) for gain in one.gains]


def _one(shape: Shape, choice: str, logs: Sequence[float]) -> Measured:
    mean = sum(logs) / len(logs)
    spread = math.sqrt(sum((v - mean) ** 2 for v in logs) / max(len(logs) - 1, 1) / len(logs))
    return Measured(shape, choice, math.exp(mean), spread)


def recommended(directory: Path, kind: ChoiceKind = ChoiceKind.RECOMMENDED) -> Recommendation:
    """Read the recommendation of a campaign, or of all jobs of a site together.

    Raises:
        UserError: nothing yet, or a choice of a site other than the recommended one.
    """
    if not is_site(directory):
        return read_campaign(directory).recommended(kind)
    if kind is not ChoiceKind.RECOMMENDED:
        raise UserError(f"{directory} is a whole site: it has no choice {kind}", "leave --choice out")
    return read_site(directory).recommendation()


def read_site(directory: Path) -> SiteDirectory:
    """The site in a directory.

    Raises:
        UserError: its wishes cannot be read.
        JournalError: a journal is damaged.
    """
    wishes = read_document(directory / WISHES, Wishes)
    found = {job: find_campaign(job_folder(directory, job)) for job in wishes.jobs}
    begun = {job: one for job, one in found.items() if one is not None}
    sample = read_document(directory / SAMPLE, Sample) if (directory / SAMPLE).exists() else None
    paths = {job: job_folder(directory, job) / UNDER_LOAD for job in begun}
    loads = {job: read_document(path, Loads) for job, path in paths.items() if path.exists()}
    return SiteDirectory(directory, wishes, begun, sample, loads)


def read_document(path: Path, kind: type[T]) -> T:
    """A document in a site's directory.

    Raises:
        UserError: it is damaged.
    """
    document = parsed(user_text(path), str(path), UserError, "the command that began the site writes it")
    return Document(str(path), UserError, own=True).structured(kind, document)


def job_folder(root: Path, job: Job) -> Path:
    """Where the campaign of a job (nodes, ppn) is."""
    return root / "jobs" / f"{job[0]}x{job[1]}"
