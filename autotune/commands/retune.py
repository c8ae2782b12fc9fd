"""``retune=DIR``: campaigns of what the last check of ``guard`` found lost, and no more (step 1)."""

from collections.abc import Sequence
from pathlib import Path

from autotune.commands.keys import quoted
from autotune.errors import ScenarioError
from autotune.guard.kept import FOLDER, NIGHTS, by_sizes, read_nights

_KEY = "retune="


def retuned(words: Sequence[str]) -> list[list[str]]:
    """The words of each campaign; collectives that lost the same sizes share one.

    Raises:
        ScenarioError: a key beside it that it sets itself, or nothing was lost there.
        UserError: nights that cannot be read.
    """
    named = [word.removeprefix(_KEY) for word in words if word.startswith(_KEY)]
    others = [word for word in words if not word.startswith(_KEY)]
    if not named:
        return [others]
    keys = {word.lstrip("+").partition("=")[0] for word in others}
    if len(named) > 1 or keys & {"collective", "sizes", "-m", "--multirun"}:
        raise ScenarioError(
            f"retune={named[0]} beside {' '.join([*named[1:], *others])}",
            "it is given once, and says itself what is measured: no collective=, sizes= or -m",
        )
    source = Path(named[0])
    nights = read_nights(source / FOLDER if (source / FOLDER / NIGHTS).exists() else source)
    last = next((night for night in reversed(nights) if night.launches or night.lost), None)
    if last is None or not last.lost:
        said = "no check was made there"
        said = f"its check of {last.date} found nothing to be tuned again" if last else said
        raise ScenarioError(f"retune={source}: {said}", "DIR is what `guard check` was given, or its --to")
    groups = by_sizes(last.lost)
    if len(groups) > 1 and "campaign.dir" in keys:
        raise ScenarioError(
            f"campaign.dir= names one folder, and retune={source} makes {len(groups)} campaigns",
            "leave it out",
        )
    return [
        [
            *([] if "campaign.dir" in keys else [f"campaign.dir=campaigns/retune-{last.day}-{names[0]}"]),
            *others,
            f"collective=[{','.join(map(quoted, names))}]",
            f"sizes=[{','.join(map(str, sizes))}]",
        ]
        for sizes, names in groups.items()
    ]
