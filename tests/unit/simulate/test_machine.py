import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from autotune.errors import ScenarioError
from autotune.simulate.machine import Machine, machine_from

MACHINES = Path(__file__).parents[3] / "conf" / "machine"


@pytest.fixture
def values() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((MACHINES / "bm_optimized3_36.yaml").read_text())
    return loaded


def test_every_machine_file_is_a_machine_of_its_name(any_machine: Machine) -> None:
    assert (MACHINES / f"{any_machine.name}.yaml").exists()
    assert not any_machine.calibrated_from


@pytest.mark.parametrize("path", sorted(MACHINES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_number_of_a_machine_file_has_its_source_beside_it(path: Path) -> None:
    numbers = re.findall(r"^\s*(\w+): *([\d.e+-]+|true|false) *(#.*)?$", path.read_text(), re.MULTILINE)
    assert len(numbers) > 20
    assert [name for name, _, comment in numbers if len(comment) < len("# as rc")] == []


@pytest.mark.parametrize(
    ("where", "key", "value", "message"),
    [
        ("memory", "cores", 37, "37 cores do not divide into 2 sockets"),
        ("memory", "latency_s", "soon", "machine.memory.latency_s = 'soon'.*expected a number"),
        ("memory", "copy_bytes_per_s", -1, "copy_bytes_per_s must be more than zero"),
        ("memory", "copy_gb", 1, "unknown key 'machine.memory.copy_gb'"),
        (None, "transports", {"quantum": {}}, "lacks 'machine.transports.quantum.latency_s', "),
        (None, "transports", 3, "machine.transports = 3.*expected a mapping"),
    ],
)
def test_a_mistake_is_named_with_its_place(
    values: dict[str, Any], where: str | None, key: str, value: object, message: str
) -> None:
    part = values[where] if where else values
    part[key] = value
    with pytest.raises(ScenarioError, match=f"(?s){message}"):
        machine_from(values)


def test_a_machine_needs_known_transports(values: dict[str, Any]) -> None:
    values["transports"] = {"quantum": values["transports"]["rc"]}
    with pytest.raises(ScenarioError, match="rc, ud, dc, tcp, not quantum"):
        machine_from(values)
