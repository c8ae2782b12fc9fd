"""``screen TABLE``: a screening that was run elsewhere, analysed."""

import json
import sys
from pathlib import Path

from autotune.screening import table as screen_table


def screen(table: Path, factors: str, responses: str, block: str | None, scale: str, as_json: bool) -> None:
    """Print the effects of some columns (words between commas) on others (the same, each with its goal)."""
    report = screen_table.screen(table, _words(factors), _words(responses), block, scale)
    sys.stdout.write(json.dumps(report, indent=1) + "\n" if as_json else screen_table.render(report))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
