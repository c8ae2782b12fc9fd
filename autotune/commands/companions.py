"""The companions (optional parts of the program, such as ``guard``), and what they may add to the core.

The core works without any companion: to leave one out, remove its folder and its row of the table. The module
that a row names declares the companion's verbs, and its variable ``companion`` adds to what the core does. No
other module of the core names a companion.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import typer

from autotune.errors import UserError

if TYPE_CHECKING:
    from autotune.campaign.bench import Compose
    from autotune.campaign.spec import CampaignSpec
    from autotune.history.objectives import Slot
    from autotune.recommend.recommendation import Recommendation

_T = TypeVar("_T")

COMPANIONS = {
    "application": "autotune.application.cli",
    "doe": "autotune.doe.cli",
    "guard": "autotune.guard.cli",
    "lint": "autotune.lint.cli",
    "simulate": "autotune.simulate.cli",
    "site": "autotune.site.cli",
    "tables": "autotune.tables.cli",
}
"""Maps the name of each companion to the module that declares its verbs."""


class _Sites(Protocol):
    """Functions that the core calls for a whole site: several jobs tuned together (``conf=site``)."""

    def tune(self, document: Mapping[str, Any], compose: "Compose", quiet: bool) -> int: ...
    def plan(
        self, document: Mapping[str, Any], compose: "Compose", planned: list[tuple[float, float]]
    ) -> int: ...  # It appends the node-hours of the jobs to ``planned``.
    def measure(self, document: Mapping[str, Any], compose: "Compose") -> int: ...
    def status(self, directory: Path, as_json: bool) -> None: ...
    def progress(self, directory: Path) -> tuple[str, bool]: ...  # A text, and whether a process goes on.
    def report(self, directory: Path, out: Path | None) -> None: ...
    def recommendation(self, directory: Path) -> "Recommendation": ...


class _Recordings(Protocol):
    """Functions that verbs of the core call to read or use recordings of an application's MPI calls."""

    def page(self, path: Path) -> str: ...

    # Kinds of calls, the most costly first: slot, nodes, and seconds without waiting for late ranks.
    def timed_slots(self, path: Path) -> "list[tuple[Slot, int, float]]": ...

    def tuned_run(self, path: Path) -> Mapping[str, Any]: ...  # The ``run.json`` of a job that tuned itself.

    # The share of an application's MPI time that its profile assigns to each slot.
    def weights(
        self, text: str, name: str, slots: "Sequence[Slot]", time_s: "Mapping[Slot, float]"
    ) -> "dict[Slot, float]": ...

    def print_worth(
        self, directory: Path, calls: Path, application_s: float | None, as_json: bool
    ) -> None: ...
    def verify(
        self,
        directory: Path,
        command: Sequence[str],
        launches: int | None,
        figure: str | None,
        more_is_better: bool,
        as_json: bool,
    ) -> int: ...


@dataclass(frozen=True, slots=True)
class Companion:
    """A companion: its verbs, its ports, and hooks that the core calls, which change nothing by default."""

    verbs: typer.Typer | None = None
    sites: _Sites | None = None
    recordings: _Recordings | None = None

    def command_lines(self, words: Sequence[str]) -> list[list[str]]:
        """Return the command line of each campaign that the words ask for."""
        return [list(words)]

    def filled(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return a composed configuration with the keys that the companion fills."""
        return dict(document)

    def worth_text(
        self,
        about: "CampaignSpec",
        recommendation: "Recommendation | None",
        harmless: "Recommendation | None",
    ) -> str:
        """Return a sentence on the time that a recommendation saves a user's run; empty if it is unknown."""
        del about, recommendation, harmless
        return ""

    def environment_of(self, path: PurePath, text: str) -> dict[str, str] | None:
        """Return environment variables that set the same as a file; None if the kind of file is unknown."""
        del path, text
        return None


@cache
def companions() -> tuple[Companion, ...]:
    """Return all companions that the table lists."""
    return tuple(import_module(module).companion for module in COMPANIONS.values())


def command_lines(words: Sequence[str]) -> Iterable[Sequence[str]]:
    """Return the command line of each campaign that the words ask for, as the companions expand the words."""
    lines = [list(words)]
    for companion in companions():
        lines = [line for former in lines for line in companion.command_lines(former)]
    return lines


def filled(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a composed configuration with the keys that companions fill."""
    for companion in companions():
        document = companion.filled(document)
    return dict(document)


def worth_text(
    about: "CampaignSpec",
    recommendation: "Recommendation | None",
    harmless: "Recommendation | None" = None,
) -> str:
    """Return a sentence on the time that a recommendation saves a user's run; empty if that is unknown."""
    texts = (companion.worth_text(about, recommendation, harmless) for companion in companions())
    return "; ".join(filter(None, texts))


def environment_of(path: PurePath, text: str) -> dict[str, str] | None:
    """Return environment variables that set the same as a file; None if the kind of file is unknown."""
    answers = (companion.environment_of(path, text) for companion in companions())
    return next((env for env in answers if env is not None), None)


def sites() -> _Sites:
    """Return the functions for whole sites, which a companion provides.

    Raises:
        UserError: no installed companion provides them.
    """
    return _provided((companion.sites for companion in companions()), "whole sites")


def recordings() -> _Recordings:
    """Return the functions for recordings of applications, which a companion provides.

    Raises:
        UserError: no installed companion provides them.
    """
    return _provided((companion.recordings for companion in companions()), "recordings of applications")


def _provided(ports: Iterable[_T | None], what: str) -> _T:
    for port in filter(None, ports):
        return port
    raise UserError(f"{what} are not part of this installation", "install all of autotune")
