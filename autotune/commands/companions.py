"""Find the companions (optional parts of the program, such as ``guard``), and call what they add to the core.

The core works without any companion. To leave a companion out, remove its folder and its entry in
``COMPANIONS``. Each entry names the module that declares the companion's verbs; the variable ``companion`` of
that module is a ``Companion``, whose methods and functions the core calls. No other module of the core names
a companion.
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
    """Declares what the core calls for a whole site: several jobs that are tuned together (``conf=site``)."""

    def tune(self, document: Mapping[str, Any], compose: "Compose", quiet: bool) -> int: ...
    # Appends the (least, most) node-hours of the jobs to ``planned``, and JSON values to ``documents``.
    def plan(
        self,
        document: Mapping[str, Any],
        compose: "Compose",
        planned: list[tuple[float, float]],
        documents: list[dict[str, Any]] | None,
    ) -> int: ...
    def measure(self, document: Mapping[str, Any], compose: "Compose") -> int: ...
    def status(self, directory: Path, as_json: bool) -> None: ...
    def progress(self, directory: Path) -> tuple[str, bool]: ...  # The status, and whether work goes on.
    def report(self, directory: Path, out: Path | None) -> None: ...
    def recommendation(self, directory: Path) -> "Recommendation": ...


class _Recordings(Protocol):
    """Declares what the core calls to read or use recordings of an application's MPI calls."""

    def page(self, path: Path) -> str: ...

    # Returns (slot, number of nodes, seconds without the wait for late ranks) of each kind of calls, the most
    # costly kind first. A slot is (collective, communicator size, message size).
    def timed_slots(self, path: Path) -> "list[tuple[Slot, int, float]]": ...

    def tuned_run(self, path: Path) -> Mapping[str, Any]: ...  # The ``run.json`` of a job that tuned itself.

    # Returns for each slot the share of the application's MPI time that the application's profile reports.
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
    """Describes what a companion adds: verbs, functions, and methods that by default have no effect."""

    verbs: typer.Typer | None = None
    sites: _Sites | None = None
    recordings: _Recordings | None = None

    def command_lines(self, words: Sequence[str]) -> list[list[str]]:
        """Return a command line for each campaign that the words of a command line ask for."""
        return [list(words)]

    def filled(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return a composed configuration in which the companion has filled in the keys that it computes."""
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
        """Return environment variables with the same effect as a file; None for an unknown kind of file."""
        del path, text
        return None


@cache
def companions() -> tuple[Companion, ...]:
    """Return all companions that ``COMPANIONS`` lists."""
    return tuple(import_module(module).companion for module in COMPANIONS.values())


def command_lines(words: Sequence[str]) -> Iterable[Sequence[str]]:
    """Return a command line for each campaign that the words ask for; any companion may expand the words."""
    lines = [list(words)]
    for companion in companions():
        lines = [line for former in lines for line in companion.command_lines(former)]
    return lines


def filled(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a composed configuration in which all companions have filled in the keys that they compute."""
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
    """Return environment variables with the same effect as a file; None for an unknown kind of file."""
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
