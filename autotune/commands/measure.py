"""``measure conf=…``: launch one point once, and print the times like ``history``."""

import sys
import tempfile
from pathlib import Path

from autotune.campaign.bench import Bench
from autotune.campaign.observing import measurement_of
from autotune.commands.history import format_of, print_or_write
from autotune.errors import CampaignError, ExitCode
from autotune.history.trial import History, Phase, Subject, Trial
from autotune.scenario import Scenario
from autotune.space.given import point_of


def measure(scenario: Scenario, bench: Bench, points: tuple[str, ...], out: Path | None) -> int:
    """Launch a point once, and print the times of every cell.

    Args:
        scenario: The scenario.
        bench: Where it is launched.
        points: Values of the point as ``NAME=VALUE``; empty: the stack's own defaults are launched.
        out: The table's file; None: standard output.

    Raises:
        ScenarioError, SpaceError: there is no such point.
        CampaignError: the launch failed.
        UserError: the table cannot be written, or its format's library is not installed.
    """
    from autotune.views.frames import history_frame

    table_format = format_of(out)  # an error is raised before the launch, whose times would be lost
    trial = Trial(
        number=1,
        phase=Phase.SEARCH if points else Phase.BASELINE,
        point=point_of(bench.space, points),
        subject=Subject.SWEEP if points else Subject.UNTOUCHED,
        seed=scenario.seed,
    )
    with tempfile.TemporaryDirectory(prefix="autotune-measure-") as folder:
        measurement = measurement_of(scenario, bench.placement.ranks)
        observation = bench.observer(measurement, bench.space, Path(folder)).observe(trial)
    for note in observation.notes:
        sys.stderr.write(f"{note}\n")
    print_or_write(history_frame(History((observation,))), out, table_format)
    if not observation.ok:
        raise CampaignError(f"the launch was {observation.status}: {observation.reason}")
    return ExitCode.WELL
