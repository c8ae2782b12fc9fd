"""``export DIR --space``: print a search-space file with the knobs (variables) that a campaign discovered."""

import math
import sys
from collections.abc import Iterator
from pathlib import Path

from autotune.campaign.directory import last_written, read_campaign
from autotune.campaign.discovery import slots_of
from autotune.errors import UserError
from autotune.screening.discovery import ChangeEffect
from autotune.space.loader import space_text_of
from autotune.views.discovery import headline, named, remarks


def space(directory: Path) -> None:
    """Print a search-space file with the knobs (variables) that proved effective in a campaign's discovery.

    Comments in the file say how many times faster than the default each value is in each slot (collective,
    communicator size and message size).

    Raises:
        UserError: there is no campaign, or its discovery is not complete.
    """
    campaign = read_campaign(directory)
    about, result = campaign.about, campaign.about.discovered
    if result is None:
        raise UserError(
            f"{directory} has discovered nothing", "run a campaign with space=discover to its search"
        )
    effects: dict[str, list[ChangeEffect]] = {}
    for effect in result.active:
        effects.setdefault(effect.change[0], []).append(effect)
    above = [
        f"Discovered by {about.name} on {last_written(directory)}: {about.bench.description}",
        f"{about.bench.ranks} ranks, nodes: {about.bench.nodes}; {', '.join(about.scenario.collective)}",
        *([str(about.bench.stamp)] if about.bench.stamp else []),
        headline(result),
        *remarks(result),
        f"times faster than the default at {', '.join(named(slots_of(campaign.history)))}:",
    ]
    comments = {name: [*_lines(name_effects)] for name, name_effects in effects.items()}
    sys.stdout.write(space_text_of(about.space, above, comments))


def _lines(effects: list[ChangeEffect]) -> Iterator[str]:
    for effect in effects:
        ratios = " ".join(f"{math.exp(-e):.2f}" for e in effect.log_ratio)
        yield f"{effect.change[1]}: {ratios}"
