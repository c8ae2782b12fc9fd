"""Store scenarios without the values of secrets, with proofs that show whether a value changed.

Journals and the files of ``guard`` are passed around. In place of a value of ``mpi.env`` or ``mpi.mca`` whose
name suggests a secret they contain a placeholder, and an HMAC of the value with the user's own key, so that a
reader of the file cannot test guesses. A later launch takes the value from the environment.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autotune.campaign.sealing import is_signed, signed
from autotune.errors import ScenarioError
from autotune.resources.secret import HIDDEN, is_secret
from autotune.scenario import Scenario
from autotune.space.given import text_of

_STORED = re.compile(rf"{HIDDEN}(?: ([0-9a-f]{{64}}))?")
_MCA = "OMPI_MCA_"


def withheld(scenario: Scenario) -> Scenario:
    """Return the scenario with placeholders for the values of secrets; existing placeholders are kept."""
    mca, env = (
        {name: _proof(name, value) if is_secret(name) else value for name, value in pairs.items()}
        for pairs in (scenario.mpi.mca, scenario.mpi.env)
    )
    return replace(scenario, mpi=replace(scenario.mpi, mca=mca, env=env))


def _proof(name: str, value: Any) -> str:
    text = text_of(value)
    return text if _STORED.fullmatch(text) else f"{HIDDEN} {signed([name, text])}".rstrip()


def with_secrets(scenario: Scenario, environment: Mapping[str, str]) -> tuple[Scenario, tuple[str, ...]]:
    """Return the scenario with its withheld values, taken from an environment.

    The second result names the parameters whose value has changed since. The value of an MCA parameter is
    taken from the variable ``OMPI_MCA_NAME``.

    Raises:
        ScenarioError: the environment lacks a withheld value.
    """
    changed: list[str] = []

    def value_of(section: str, name: str, stored: Any) -> Any:
        proof = _STORED.fullmatch(str(stored))
        if proof is None:
            return stored
        variable = f"{_MCA}{name}" if section == "mca" else name
        if variable not in environment:
            raise ScenarioError(
                f"mpi.{section}.{name} is a secret by its name, and no file keeps its value",
                f"export {variable}=… before, with the value that launches shall have",
            )
        if proof[1] and not is_signed([name, environment[variable]], proof[1]):
            changed.append(f"mpi.{section}.{name}")
        return environment[variable]

    mca, env = (
        {name: value_of(section, name, value) for name, value in getattr(scenario.mpi, section).items()}
        for section in ("mca", "env")
    )
    return replace(scenario, mpi=replace(scenario.mpi, mca=mca, env=env)), tuple(changed)
