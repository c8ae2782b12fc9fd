"""A directory of a site: its wishes, the campaigns of its jobs, and what they say together."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.commands.kept_status import is_site
from autotune.commands.site_rules import agreed, predicted_rules
from autotune.errors import UserError
from autotune.history.events import State
from autotune.history.folder import FILE, WISHES
from autotune.history.trial import Phase, Rule, Subject
from autotune.recommend.recommendation import Checked, Part, Recommendation
from autotune.resources import user_text
from autotune.scenario.whole_site import Job, Wishes
from autotune.site import (
    DEFAULT,
    LOSS,
    Decision,
    Measured,
    Shape,
    Transfer,
    bounds,
    calibrated,
    decide,
    fitted,
    of_sample,
    outcomes,
)
from autotune.space import Point
from autotune.stacks import dialect
from autotune.structure import Document
from autotune.verification.choices import ChoiceKind

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

    @property
    def node_hours(self) -> float:
        """Used so far."""
        return sum(job[0] * sum(o.duration_s for o in c.history) for job, c in self.campaigns.items()) / 3600

    @cached_property
    def choices(self) -> dict[str, Point]:
        """Settings by the names of choices."""
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
    def recommended(self) -> dict[Job, Recommendation]:
        """Recommendations of the jobs that have one."""
        jobs = {job: c for job, c in self.campaigns.items() if job != self.sampled_job}
        found = ((job, c.conclude().recommendation) for job, c in jobs.items())
        return {job: one for job, one in found if one is not None}

    @cached_property
    def model(self) -> Transfer:
        """The model of all that was measured."""
        return fitted(self.measured)

    @cached_property
    def z(self) -> float | None:
        """Standard deviations below the expected gain that a prediction needs; None: none is made."""
        z = calibrated(outcomes(self.measured, self.model.scales)) if self.measured else None
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
        left = [job for job in self.wishes.jobs if job not in self.recommended]
        asked = [Shape(*slot) for job in left for slot in self.wishes.slots(job)]
        if not self.measured or not asked:
            return [Decision(shape, DEFAULT) for shape in asked]
        ruled = {(r.collective, str(r.choice)) for one in self.recommended.values() for r in one.rules}
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
    wishes = _read(directory / WISHES, Wishes)
    begun = {job: read_campaign(job_folder(directory, job)) for job in wishes.jobs if _begun(directory, job)}
    sample = _read(directory / SAMPLE, Sample) if (directory / SAMPLE).exists() else None
    return SiteDirectory(directory, wishes, begun, sample)


def _read(path: Path, kind: type[T]) -> T:
    try:
        document = json.loads(user_text(path))
    except ValueError as exc:
        raise UserError(f"{path} cannot be read: {exc}", "the command that began the site writes it") from exc
    return Document(str(path), UserError, own=True).structured(kind, document)


def cells(site: SiteDirectory) -> Iterator[tuple[str, int, int, int, float, bool]]:
    """Collective, nodes, ppn, bytes, default / tuned (1: the library decides), and whether predicted."""
    by_slot = {(job, gain.slot): gain.ratio for job, one in site.recommended.items() for gain in one.gains}
    for job in site.recommended:
        for name, nodes, ppn, size in site.wishes.slots(job):
            yield name, nodes, ppn, size, by_slot.get((job, (name, nodes * ppn, size)), 1.0), False
    for made in site.decided:
        yield *astuple(made.shape), math.exp(made.gain), made.choice != DEFAULT


def _begun(root: Path, job: Job) -> bool:
    return (job_folder(root, job) / FILE).is_file()


def job_folder(root: Path, job: Job) -> Path:
    """Where the campaign of a job (nodes, ppn) is."""
    return root / "jobs" / f"{job[0]}x{job[1]}"
