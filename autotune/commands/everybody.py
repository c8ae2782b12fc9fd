"""Choice of the setting for files that act on everybody's jobs: those of a user, a prefix or a site."""

import sys
from pathlib import Path

from autotune.campaign.directory import read_campaign
from autotune.commands.companions import sites
from autotune.commands.kept_status import is_site
from autotune.errors import UserError
from autotune.recommend.other_calls import slower, unresolved_text
from autotune.recommend.recommendation import Recommendation
from autotune.verification.choices import ChoiceKind


def recommended(directory: Path, kind: ChoiceKind = ChoiceKind.RECOMMENDED) -> Recommendation:
    """Read the recommendation of a campaign, or the common one for all jobs of a site.

    Raises:
        AutotuneError: a harmless setting is requested, and every verified one makes other calls slower.
        UserError: there is no recommendation yet, or a choice is requested that a site does not have.
    """
    if not is_site(directory):
        return read_campaign(directory).recommended(kind)
    return _of_site(directory, kind)


def for_everybody(directory: Path, kind: ChoiceKind) -> Recommendation:
    """Return the setting of a campaign or site for everybody's jobs.

    Also print the calls that this setting makes slower, or else those that the best setting makes slower.

    Raises:
        AutotuneError: a harmless setting is requested, and every verified one makes other calls slower.
        UserError: as from ``recommended``.
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
        ratio = f"{best.speedup:.2f}×"
        sys.stdout.write(
            f"the harmless setting, {recommendation.speedup:.2f}×: the best one, {ratio}, is {best.scope}; "
            "--choice recommended takes it\n"
        )
    if text := unresolved_text(recommendation.others):
        sys.stdout.write(f"{text}\n")
    return recommendation


def _of_site(directory: Path, kind: ChoiceKind) -> Recommendation:
    if kind not in (ChoiceKind.RECOMMENDED, ChoiceKind.HARMLESS):
        raise UserError(f"{directory} is a whole site: it has no choice {kind}", "leave --choice out")
    return sites().recommendation(directory)
