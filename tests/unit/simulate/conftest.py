from pathlib import Path

import pytest
import yaml

from autotune.simulate.machine import Machine, machine_from

MACHINES = Path(__file__).parents[3] / "conf" / "machine"


@pytest.fixture(params=sorted(path.stem for path in MACHINES.glob("*.yaml")))
def any_machine(request: pytest.FixtureRequest) -> Machine:
    return machine_from(yaml.safe_load((MACHINES / f"{request.param}.yaml").read_text()))


@pytest.fixture(scope="session")
def machine() -> Machine:
    return machine_from(yaml.safe_load((MACHINES / "bm_optimized3_36.yaml").read_text()))
