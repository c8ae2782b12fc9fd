"""``measure conf=…``: one launch of one point by hand, printed like ``history``."""

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.commands.tune import experiment_of
from autotune.errors import CampaignError, ScenarioError
from autotune.history.trial import History, Phase, Subject, Trial
from autotune.scenario import Scenario
from autotune.site import point_of

if TYPE_CHECKING:
    from autotune.commands.hydra_bridge import Task
    from autotune.site import Site


def task(words: list[str]) -> tuple["Task", list[str]]:
    """What ``measure`` does, and the words that are left for Hydra.

    Raises:
        ScenarioError: an option without its value.
    """
    points: list[str] = []
    outs: list[str] = []
    rest: list[str] = []
    waiting = iter(words)
    for word in waiting:
        name, equals, value = word.partition("=")
        if name not in ("--point", "--out"):
            rest.append(word)
            continue
        given = value if equals else next(waiting, None)
        if not given:
            raise ScenarioError(f"{name} without a value", "--point NAME=VALUE (repeatable), --out FILE.csv")
        (points if name == "--point" else outs).append(given)
    out = Path(outs[-1]) if outs else None

    def measured(scenario: Scenario, site: "Site") -> int:
        return _measure(scenario, site, tuple(points), out)

    return measured, rest


def _measure(scenario: Scenario, site: "Site", points: tuple[str, ...], out: Path | None) -> int:
    from autotune.views.frames import history_frame, write_table

    trial = Trial(
        number=1,
        phase=Phase.SEARCH if points else Phase.BASELINE,
        point=point_of(site.space, points),
        subject=Subject.SWEEP if points else Subject.UNTOUCHED,
        seed=scenario.seed,
    )
    with tempfile.TemporaryDirectory(prefix="autotune-measure-") as folder:
        experiment = replace(experiment_of(scenario, site), directory=Path(folder))
        observation = experiment.observe(trial)
    for note in observation.notes:
        sys.stderr.write(f"{note}\n")
    table_format = "parquet" if out and out.suffix == ".parquet" else "csv"
    write_table(history_frame(History((observation,))), table_format, out)
    if not observation.ok:
        raise CampaignError(f"the launch was {observation.status}: {observation.reason}")
    return 0
