"""``measure conf=…``: launch one point (a value for each parameter) once, and print times as ``history``."""

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
    """Launch one setting of the parameters once, and print a row for each cell that was measured.

    A cell is a collective, communicator size, message size and per-size choice (such as the algorithm).
    ``points`` are the setting's values as ``NAME=VALUE``; if there are none, the MPI's own defaults are
    launched. The table is written to the file ``out``, or printed if this is None.

    Raises:
        ScenarioError, SpaceError: the search space has no such parameter or value.
        CampaignError: the launch failed.
        UserError: the table cannot be written, or its format's library is not installed.
    """
    from autotune.views.frames import history_table

    table_format = format_of(out)  # checked before the launch: a later error would lose the times
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
    print_or_write(history_table(History((observation,))), out, table_format)
    if not observation.ok:
        raise CampaignError(f"the launch was {observation.status}: {observation.reason}")
    return ExitCode.WELL
