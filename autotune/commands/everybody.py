"""Choose the setting for files that apply to all jobs of a user, of an MPI installation, or of a site."""

import sys
from pathlib import Path

from autotune.campaign.directory import read_campaign
from autotune.commands.companions import sites
from autotune.commands.kept_status import is_site
from autotune.errors import UserError
from autotune.recommend.other_calls import slower, unresolved_text
from autotune.recommend.recommendation import Recommendation
from autotune.verification.choices import ChoiceKind
from autotune.views.ending import ending, with_ending


def recommended(directory: Path, kind: ChoiceKind = ChoiceKind.RECOMMENDED) -> Recommendation:
    """Return the recommendation of a campaign, or the common recommendation for all jobs of a site.

    Raises:
        AutotuneError: a setting that slows no other call is requested, but every verified setting slows some
            other call.
        UserError: there is no recommendation yet, or the kind of choice does not exist for a site.
    """
    if is_site(directory):
        return _of_site(directory, kind)
    campaign = read_campaign(directory)
    conclusion = campaign.conclude()
    state = ending(campaign.about, campaign.history, conclusion, directory, campaign.state)
    return with_ending(campaign.recommended(kind, conclusion), state)


def for_everybody(directory: Path, kind: ChoiceKind) -> Recommendation:
    """Return the setting of a campaign or site for everybody's jobs, and print which other calls it slows.

    If a campaign's setting slows no other call, the function prints which calls the best setting would slow.

    Raises:
        AutotuneError: a setting that slows no other call is requested, but every verified setting slows some
            other call.
        UserError: for the same reasons as in ``recommended``.
    """
    if is_site(directory):
        return _of_site(directory, kind)
    campaign = read_campaign(directory)
    conclusion = campaign.conclude()
    recommendation = campaign.recommended(kind, conclusion)
    best = conclusion.choices[0].recommendation
    if slower(recommendation.others):
        sys.stdout.write(f"this setting is {recommendation.scope}\n")
    elif slower(best.others):
        sys.stdout.write(
            f"the harmless setting, {recommendation.speedup:.2f}×: the best one, {best.speedup:.2f}×, is "
            f"{best.scope}; --choice recommended takes it\n"
        )
    if text := unresolved_text(recommendation.others):
        sys.stdout.write(f"{text}\n")
    return recommendation


def _of_site(directory: Path, kind: ChoiceKind) -> Recommendation:
    if kind not in (ChoiceKind.RECOMMENDED, ChoiceKind.HARMLESS):
        raise UserError(f"{directory} is a whole site: it has no choice {kind}", "leave --choice out")
    return sites().recommendation(directory)
