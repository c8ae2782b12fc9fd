"""A program of the proving ground: heats of given settings, one JSON line for each launch.

    python tests/cluster/heat.py DIRECTORY HEATS WORDS

``HEATS`` is a list of heats, each a list of settings, ``{}`` being the stack as it is; ``"nodes": n`` in one
places its ranks on so many nodes alone. ``WORDS`` compose the scenario.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from autotune.campaign.bench import Bench
from autotune.campaign.heats import at_once, observe_heat
from autotune.campaign.observing import Launches, measurement_of
from autotune.commands.hydra_bridge import run_task
from autotune.history.trial import Phase, Subject, Trial
from autotune.scenario import Scenario


def _entrant(observer: Launches, number: int, block: int, setting: dict[str, Any]) -> tuple[Launches, Trial]:
    nodes = setting.pop("nodes", 0)
    if nodes:
        probe = replace(observer.measurement.probe, ranks=nodes)
        observer = replace(
            observer,
            placement=replace(
                observer.placement, ranks=nodes, nodes=nodes, hosts=observer.placement.hosts[:nodes]
            ),
            measurement=replace(observer.measurement, probe=probe),
        )
    subject = Subject.DEPLOYED if setting else Subject.UNTOUCHED
    point = observer.space.untouched.replace(**setting) if setting else observer.space.untouched
    return observer, Trial(number, Phase.VERIFY, point, subject, block, seed=block, heat=True)


def _heats(scenario: Scenario, bench: Bench) -> int:
    measurement = replace(measurement_of(scenario, bench.placement.ranks), heat_s=scenario.probe.budget_s)
    observer = bench.observer(measurement, bench.space, Path(sys.argv[1]))
    assert isinstance(observer, Launches)
    assert at_once(observer)
    number = 1
    for settings in json.loads(sys.argv[2]):
        entrants = [_entrant(observer, number + i, number, setting) for i, setting in enumerate(settings)]
        number += len(settings)
        for o in observe_heat(entrants):
            times = {e.cell.message_bytes: e.median_s for e in o.usable}
            said = {"status": o.status, "reason": o.reason, "hosts": sorted(set(o.hosts)), "notes": o.notes}
            print(json.dumps({**said, "times": times}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(run_task(_heats, sys.argv[3:]))
