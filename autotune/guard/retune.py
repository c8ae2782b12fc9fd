"""Expand ``retune=DIR`` into campaigns that tune only calls that the last ``guard check`` found slower."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from autotune.commands.keys import quoted
from autotune.errors import ScenarioError
from autotune.guard.kept import FOLDER, NIGHTS, read_nights, slot_in

_KEY = "retune="


def retuned(words: Sequence[str]) -> list[list[str]]:
    """Return the command-line words of each campaign that ``retune=DIR`` requests.

    Collectives that became slower at the same message sizes are tuned in one campaign. If no word begins with
    ``retune=``, all words are returned unchanged for a single campaign.

    Raises:
        ScenarioError: ``retune=`` is given twice, or together with a key that ``retune=`` sets, or the last
            check found nothing slower.
        UserError: the results of the checks cannot be read.
    """
    sources = [word.removeprefix(_KEY) for word in words if word.startswith(_KEY)]
    other_words = [word for word in words if not word.startswith(_KEY)]
    if not sources:
        return [other_words]
    keys = {word.lstrip("+").partition("=")[0] for word in other_words}
    if len(sources) > 1 or keys & {"collective", "sizes", "-m", "--multirun"}:
        raise ScenarioError(
            f"retune={sources[0]} beside {' '.join([*sources[1:], *other_words])}",
            "it is given once, and says itself what is measured: no collective=, sizes= or -m",
        )
    source = Path(sources[0])
    nights = read_nights(source / FOLDER if (source / FOLDER / NIGHTS).exists() else source)
    last = next((night for night in reversed(nights) if night.launches or night.lost), None)
    if last is None or not last.lost:
        reason = (
            f"its check of {last.date} found nothing to be tuned again" if last else "no check was made there"
        )
        raise ScenarioError(f"retune={source}: {reason}", "DIR is what `guard check` was given, or its --to")
    sizes_of: dict[str, set[int]] = defaultdict(set)
    for collective, _, size in map(slot_in, last.lost):
        sizes_of[collective].add(size)
    groups: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for collective, sizes in sorted(sizes_of.items()):
        groups[tuple(sorted(sizes))].append(collective)
    if len(groups) > 1 and "campaign.dir" in keys:
        problem = f"campaign.dir= names one folder, and retune={source} makes {len(groups)} campaigns"
        raise ScenarioError(problem, "leave it out")
    return [
        [
            *([] if "campaign.dir" in keys else [f"campaign.dir=campaigns/retune-{last.day}-{names[0]}"]),
            *other_words,
            f"collective=[{','.join(map(quoted, names))}]",
            f"sizes=[{','.join(map(str, sizes))}]",
        ]
        for sizes, names in groups.items()
    ]
