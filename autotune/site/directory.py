"""Read the directory of a site: the user's request, a campaign for each job, and the conclusions from these.

A site is a cluster that is tuned as a whole. A job is a number of nodes with a number of ranks on each. A
setting is a set of changes from the library's defaults that hold for a whole job. A per-size choice, such as
the algorithm, can vary with the message size. A shape is a collective, a job and a message size. The loaded
machine is the machine while other work, the command ``site.under_load``, runs.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TypeVar

from autotune.campaign.conclusion import Conclusion, under
from autotune.campaign.directory import CampaignDirectory, find_campaign
from autotune.errors import SpaceError, UserError
from autotune.history.events import State
from autotune.history.folder import WISHES
from autotune.history.trial import Phase, Subject
from autotune.recommend.recommendation import Checked, Recommendation
from autotune.resources import user_text
from autotune.scenario.whole_site import Job, Wishes
from autotune.site import rules as site_rules
from autotune.site.abstention import LOSS, Decision, bounds, calibrated, decide, of_sample, outcomes
from autotune.site.common import Offered, apart, common
from autotune.site.load import UNDER_LOAD, Loads, UnderLoad, without_lost_rules
from autotune.site.transfer import DEFAULT, Measured, Shape, Transfer, fitted
from autotune.space import Point
from autotune.stacks import dialect
from autotune.structure import Document, parsed
from autotune.verification.choices import Choice, ChoiceKind
from autotune.verification.deployed import deploys

T = TypeVar("T")
SAMPLE = "sample.json"
"""File in a site's directory with the predictions for one job, which is measured afterwards to test them."""
SAMPLED = 2
"""Number of launches of a job that is measured only to test predictions: one runs the library's defaults, the
other one times every per-size choice (such as the algorithm)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The predictions for one job. They are saved before the job is measured, so that they can be tested."""

    job: Job
    z: float  # Each predicted gain exceeded this number of its standard deviations.
    predicted: tuple[Decision, ...]

    def __post_init__(self) -> None:
        """Raise a ``UserError`` unless ``z`` is positive."""
        if not self.z > 0:
            raise UserError(f"{SAMPLE}: z={self.z}", "expected a number above zero")


@dataclass(frozen=True)
class SiteDirectory:
    """A site: the user's request (``wishes``), the campaigns of its jobs, and the conclusions from them."""

    path: Path
    wishes: Wishes
    campaigns: Mapping[Job, CampaignDirectory]  # Campaigns of all jobs begun so far.
    sample: Sample | None = None  # Predictions to be tested; None if none were saved yet.
    loads: Mapping[Job, Loads] = field(default_factory=dict)  # Results on the loaded machine.

    @property
    def node_hours(self) -> float:
        """Return the node-hours used so far."""
        alone_s = sum(job[0] * sum(o.duration_s for o in c.history) for job, c in self.campaigns.items())
        loaded_s = sum(job[0] * one.took_s for job, results in self.loads.items() for one in results.found)
        return (alone_s + loaded_s) / 3600

    def _without_lost_rules(self, job: Job, recommendation: Recommendation) -> Recommendation:
        """Return a job's recommendation without rules for calls that were slower on the loaded machine."""
        one_row = dialect(self.campaigns[job].about.space.stack).one_row
        return without_lost_rules(recommendation, self.under_load(job, recommendation), one_row)

    def under_load(self, job: Job, recommendation: Recommendation) -> UnderLoad | None:
        """Return the results of a job's recommendation on the loaded machine; None if there are none."""
        return self.loads.get(job, Loads()).of(self._setting_text(job, recommendation))

    def _setting_text(self, job: Job, recommendation: Recommendation) -> str:
        """Return the values that a recommendation changes for the whole job, as text; empty if none."""
        return str(self._changes(job, recommendation.point) or "")

    @property
    def not_loaded(self) -> Iterator[tuple[Job, str, Recommendation]]:
        """Yield each job whose chosen setting was not yet launched while other work loads the machine.

        Each tuple contains the job, the values that the setting changes for the whole job as text, and the
        recommendation.
        """
        for job, chosen in self.chosen.items():
            if deploys(self.campaigns[job].about.space, chosen) and self.under_load(job, chosen) is None:
                yield job, self._setting_text(job, chosen), chosen

    @cached_property
    def settings(self) -> tuple[Point, ...]:
        """Return the different settings that jobs recommend; the first is that of the library's defaults."""
        changes = (self._changes(job, one.point) for job, one in self.recommended.items())
        return tuple(dict.fromkeys((Point(), *changes)))

    def _changes(self, job: Job, point: Point) -> Point:
        """Return the job-wide values of a point that differ from the defaults of the job's search space."""
        space = self.campaigns[job].about.space
        return space.changes(point).restricted(space.job_wide)

    def _settings_meaning(self, job: Job, changes: Point) -> list[Point]:
        """Return the settings of the site whose effect on a job is exactly ``changes``."""
        parameters = self.campaigns[job].about.space.job_wide
        return [setting for setting in self.settings if setting.restricted(parameters) == changes]

    @cached_property
    def choices(self) -> dict[str, Point]:
        """Return the values of every per-size choice that was measured, by the name of the choice."""
        cells = (e.cell for c in self.campaigns.values() for o in c.history for e in o.usable)
        swept = {cell.choice for cell in cells if cell.choice}
        return {_choice_name(setting, choice): choice for choice in swept for setting in self.settings}

    @cached_property
    def measured(self) -> list[Measured]:
        """Return the mean time of each shape and choice in all jobs, under each of the site's settings.

        Launches of verifications are left out, because they measure chosen settings alone.
        """
        logs_by_choice: dict[tuple[Shape, str], list[float]] = defaultdict(list)
        for job, campaign in self.campaigns.items():
            for observation in (o for o in campaign.history if o.trial.phase is not Phase.VERIFY):
                untouched, settings = observation.trial.subject is Subject.UNTOUCHED, [Point()]
                if not untouched:
                    settings = self._settings_meaning(job, self._changes(job, observation.trial.point))
                for estimate, setting in product(observation.usable, settings):
                    cell = estimate.cell
                    if cell.comm_size == job[0] * job[1] and untouched != bool(cell.choice):
                        shape = Shape(cell.collective, *job, cell.message_bytes)
                        choice = DEFAULT if untouched else _choice_name(setting, cell.choice)
                        logs_by_choice[shape, choice].append(math.log(estimate.median_s))
        return [_mean_time(shape, choice, logs) for (shape, choice), logs in logs_by_choice.items()]

    @property
    def sampled_job(self) -> Job | None:
        """Return the job that was measured only to test the predictions for it; None if there is none."""
        if self.sample is None or self.sample.job not in self.campaigns:
            return None
        launches = self.campaigns[self.sample.job].about.scenario.budget.launches
        return self.sample.job if launches <= SAMPLED else None

    def is_complete(self, job: Job) -> bool:
        """Return whether a job's campaign is complete and was more than a test of predictions."""
        complete = job in self.campaigns and self.campaigns[job].state is State.COMPLETE
        return complete and job != self.sampled_job

    @cached_property
    def _concluded(self) -> dict[Job, Conclusion]:
        return {job: c.conclude() for job, c in self.campaigns.items() if job != self.sampled_job}

    @cached_property
    def recommended(self) -> dict[Job, Recommendation]:
        """Return the recommendation of each job by itself, whatever the other jobs need.

        If the fastest setting of a job slows calls that were not tuned, the fastest setting that slows none
        is recommended instead, or the defaults if there is no such setting. With ``site.setting=best`` the
        fastest setting is recommended in any case. Rules for calls that were slower on the loaded machine are
        left out.
        """
        kind = ChoiceKind.RECOMMENDED if self.wishes.setting == "best" else ChoiceKind.HARMLESS
        choices = {job: self._concluded[job].choice(kind) for job in self.best}
        return {
            job: self._without_lost_rules(job, one.recommendation) if one else self._untouched(job)
            for job, one in choices.items()
        }

    @property
    def best(self) -> dict[Job, Choice]:
        """Return the fastest setting of each job by itself, even if it slows calls that were not tuned."""
        return {job: one.choices[0] for job, one in self._concluded.items() if one.choices}

    def _untouched(self, job: Job) -> Recommendation:
        """Return the library's defaults on a job as a recommendation, which needs no verification."""
        source = self.best[job].recommendation.provenance
        source = replace(source, env=(), placement=(), boot=(), checked=Checked.REFUSED)
        return Recommendation(self.campaigns[job].about.space.untouched, (), (), source)

    @cached_property
    def offered(self) -> dict[Job, dict[Point, Recommendation]]:
        """Return what each job would recommend under each of the site's settings.

        Under a setting that another job recommends, the recommendation rests on the job's search alone and
        was not verified. A setting that cannot be applied to a job, or was not measured on it, is missing.
        """
        return {
            job: {s: found for s in self.settings if (found := self._recommended_under(job, s))}
            for job in self.recommended
        }

    def _recommended_under(self, job: Job, setting: Point) -> Recommendation | None:
        recommendation, campaign = self.recommended[job], self.campaigns[job]
        space = campaign.about.space
        changes = setting.restricted(space.job_wide)
        if changes == self._changes(job, recommendation.point):
            return recommendation
        if not changes:
            return self._untouched(job)
        try:
            point = space.complete(dict(changes))
        except SpaceError:  # the job's space lacks a value of the setting
            return None
        searched = under(campaign.about, campaign.history, point, recommendation.provenance.date)
        return searched and self._without_lost_rules(job, searched)

    @cached_property
    def _offered_gains(self) -> dict[Job, dict[Point, Offered]]:
        return {
            job: {
                setting: Offered([math.log(gain.ratio) for gain in one.gains], self._loses(job, one))
                for setting, one in by_setting.items()
            }
            for job, by_setting in self.offered.items()
        }

    def _loses(self, job: Job, recommendation: Recommendation) -> bool:
        """Return whether a recommendation was slower than the defaults in any of a job's comparisons.

        These are the comparison on the loaded machine and, unless a verification of the recommendation was
        conclusive, the verifications and the search.
        """
        if (result := self.under_load(job, recommendation)) and result.refused:
            return True
        if recommendation.provenance.checked.done:
            return False
        verdict, point = self._concluded[job].verdict, recommendation.point
        rounds = verdict.rounds if verdict else ()
        refused = any(one.loses for one in rounds if one.setting.point == point)
        return refused or any(gain.ratio < 1 - LOSS and gain.interval[1] < 1 for gain in recommendation.gains)

    @cached_property
    def common(self) -> Point:
        """Return the setting of the files for all jobs.

        The setting has the largest gain over all jobs together and slows none of them. Only settings that
        rules can restrict to the measured calls are allowed.
        """
        offers, others = self.offered.values(), self.settings[1:]
        expressible = [s for s in others if all(s in by and site_rules.by_rules(by[s]) for by in offers)]
        return common(self._offered_gains, Point(), expressible)

    @cached_property
    def separate(self) -> dict[Job, Recommendation]:
        """Return the recommendations of the jobs that get files of their own.

        A job gets its own files if its gain under another setting exceeds its gain under the common setting
        by more than ``site.split_gain``.
        """
        settings = apart(self._offered_gains, self.common, math.log1p(self.wishes.split_gain))
        return {job: self._for_files(self.offered[job][setting]) for job, setting in settings.items()}

    def _for_files(self, recommendation: Recommendation) -> Recommendation:
        """Return a job's recommendation for its files, whose rules apply only to calls that were measured."""
        stack_dialect = dialect(self.first.about.space.stack)
        if site_rules.sets_han_aside(recommendation):
            recommendation = site_rules.handing_over(recommendation, stack_dialect.one_row)
        if not stack_dialect.by_ranks:
            return recommendation
        return replace(recommendation, rules=site_rules.exact(recommendation.rules))

    @cached_property
    def chosen(self) -> dict[Job, Recommendation]:
        """Return the recommendation for each measured job that is written to the files."""
        return {job: self.separate.get(job, by[self.common]) for job, by in self.offered.items()}

    @cached_property
    def model(self) -> Transfer:
        """Return the model that predicts gains, fitted to all measurements."""
        return fitted(self.measured)

    @cached_property
    def z(self) -> float | None:
        """Return the number of its standard deviations that a predicted gain has to exceed.

        The result is None if nothing may be predicted: too few predictions could be tested, or too many of
        them turned out wrong.
        """
        z = calibrated(outcomes(self.measured)) if self.measured else None
        if z is None or self.sample is None:
            return z
        sampled = of_sample(self.sample_outcomes, self.sample.z)
        return None if sampled is None else max(z, sampled)

    @cached_property
    def sample_outcomes(self) -> list[tuple[Decision, bool]]:
        """Return the saved predictions that were measured afterwards, and whether each was a loss."""
        times = {(m.shape, m.choice): m.time_s for m in self.measured}
        results = []
        for one in self.sample.predicted if self.sample else ():
            chosen_s, default_s = (times.get((one.shape, choice)) for choice in (one.choice, DEFAULT))
            if chosen_s and default_s:
                results.append((one, chosen_s > (1 + LOSS) * default_s))
        return results

    @property
    def sample_text(self) -> str:
        """Return a text on how many saved predictions were wrong, and the effect; empty if none are saved."""
        if self.sample is None:
            return ""
        lost, z, job = sum(lost for _, lost in self.sample_outcomes), self.sample.z, self.sample.job
        text = f"sample: of {len(self.sample_outcomes)} predictions for {job[0]} × {job[1]} ranks "
        text += f"{lost} proved more than {LOSS:.0%} slower"
        if not lost:
            return text
        consequence = "nothing is predicted any more" if self.z is None else f"{self.z:g} are needed now"
        return f"{text}; predictions needed {z:g} standard deviations before, {consequence}"

    @cached_property
    def predicted_jobs(self) -> list[Job]:
        """Return the jobs for which at least one choice is predicted, small jobs first."""
        shapes = (decision.shape for decision in self.decided if decision.choice != DEFAULT)
        return sorted({(shape.nodes, shape.ppn) for shape in shapes})

    @cached_property
    def decided(self) -> list[Decision]:
        """Return the decision for each shape without a recommendation, under the common setting.

        A choice is predicted only if it occurs in a rule that some measured job recommends.
        """
        jobs, setting = [job for job in self.wishes.jobs if job not in self.recommended], self.common
        shapes = [Shape(*slot) for job in jobs for slot in self.wishes.slots(job)]
        if not self.measured or not shapes:
            return [Decision(shape, DEFAULT) for shape in shapes]
        ruled = {
            (rule.collective, _choice_name(setting, rule.choice))
            for job, recommendation in self.recommended.items()
            if setting in self._settings_meaning(job, self._changes(job, recommendation.point))
            for rule in recommendation.rules
        }
        predictions = {
            shape: [prediction for prediction in predicted if (shape.collective, prediction[0]) in ruled]
            for shape, predicted in bounds(self.model, shapes).items()
        }
        return decide(predictions, self.z)

    def decided_for(self, job: Job) -> list[Decision]:
        """Return the decisions for the shapes of one job without a recommendation."""
        return [decision for decision in self.decided if (decision.shape.nodes, decision.shape.ppn) == job]

    @property
    def first(self) -> CampaignDirectory:
        """Return the campaign of the smallest job that was begun."""
        return next(iter(self.campaigns.values()))


def _choice_name(setting: Point, choice: Point) -> str:
    """Return the name by which the prediction model identifies a per-size choice under a job-wide setting."""
    return f"{setting}; {choice}" if setting else str(choice)


def _mean_time(shape: Shape, choice: str, logs: Sequence[float]) -> Measured:
    """Return the geometric mean of a choice's times at a shape, and the standard error of its logarithm."""
    mean = sum(logs) / len(logs)
    spread = math.sqrt(sum((v - mean) ** 2 for v in logs) / max(len(logs) - 1, 1) / len(logs))
    return Measured(shape, choice, math.exp(mean), spread)


def read_site(directory: Path) -> SiteDirectory:
    """Return the site in a directory.

    Raises:
        UserError: a document of the site cannot be read.
        JournalError: a journal is damaged.
    """
    wishes = read_document(directory / WISHES, Wishes)
    found = {job: find_campaign(job_folder(directory, job)) for job in wishes.jobs}
    campaigns = {job: campaign for job, campaign in found.items() if campaign is not None}
    sample = read_document(directory / SAMPLE, Sample) if (directory / SAMPLE).exists() else None
    paths = {job: job_folder(directory, job) / UNDER_LOAD for job in campaigns}
    loads = {job: read_document(path, Loads) for job, path in paths.items() if path.exists()}
    return SiteDirectory(directory, wishes, campaigns, sample, loads)


def read_document(path: Path, kind: type[T]) -> T:
    """Return a document in a site's directory as a value of a dataclass.

    Raises:
        UserError: the document is damaged.
    """
    document = parsed(user_text(path), str(path), UserError, "the command that began the site writes it")
    return Document(str(path), UserError, own=True).structured(kind, document)


def job_folder(root: Path, job: Job) -> Path:
    """Return the directory of the campaign of a job (nodes, ppn)."""
    return root / "jobs" / f"{job[0]}x{job[1]}"
