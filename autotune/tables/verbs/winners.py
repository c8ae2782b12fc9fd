"""``compare --winners``: print a table with the best algorithm for each message size, ranks and nodes."""

import sys
from collections.abc import Sequence
from pathlib import Path

from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.errors import UserError
from autotune.exporters.writing import write_files
from autotune.recommend.front import candidates
from autotune.recommend.winners import winners as winners_of
from autotune.views.documents import csv_text, json_text
from autotune.views.tuning_table import Entry, tuning_page, tuning_rows, tuning_text


def winners(directories: Sequence[Path], out: Path | None, plot: Path | None, as_json: bool) -> None:
    """Print the best per-size choices, such as algorithms, of one or several campaigns as a table.

    Args:
        directories: Directories of campaigns, for example one for each number of nodes.
        out: File for the table as CSV; None: no such file is written.
        plot: File for an HTML page with a figure of the table; None: no such file is written.
        as_json: Whether to print the table as JSON in place of text.

    Raises:
        UserError: a directory contains no campaign, two campaigns measured the same slot (collective,
            communicator size, message size), no choice was measured yet, or a file cannot be written.
    """
    table: list[Entry] = []
    campaign_of_slot: dict[tuple[int, tuple[str, int, int]], Path] = {}
    for directory in directories:
        for entry in _entries(read_campaign(directory)):
            if (first := campaign_of_slot.setdefault((entry.nodes, entry.slot), directory)) != directory:
                collective, ranks, size = entry.slot
                slot = f"{collective} of {size} B, {ranks} ranks, nodes={entry.nodes}"
                hint = "name campaigns that differ in nodes, ranks, collectives or sizes"
                raise UserError(f"{first} and {directory} both have {slot}", hint)
            table.append(entry)
    if not table:
        raise UserError(
            f"{', '.join(map(str, directories))}: no choice by message size was measured",
            "the space has no parameter with per_size, or nothing was launched yet; "
            "`report` shows what a setting gains at each size",
        )
    table.sort(key=lambda winner: (winner.slot[0], winner.nodes, winner.slot[1:]))
    files = {}
    if out is not None:
        files[out] = csv_text(rows := tuning_rows(table), list(rows[0]))
    if plot is not None:
        files[plot] = tuning_page(table, ", ".join(directory.name for directory in directories))
    if files:
        write_files(files)
    sys.stdout.write(json_text(tuning_rows(table)) if as_json else tuning_text(table))
    sys.stderr.writelines(f"{path}\n" for path in files)


def _entries(campaign: CampaignDirectory) -> list[Entry]:
    """Return the best per-size choices with a campaign's recommended setting, or its best setting so far."""
    about = campaign.about
    settings = candidates(about.objectives, about.space, campaign.history)
    recommendation = campaign.conclude().recommendation
    places = winners_of(about.objectives, about.space, campaign.history, settings, recommendation)
    return [Entry(about.bench.nodes, place) for place in places]
