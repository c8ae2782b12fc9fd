"""The companions: the one table of them, and what they add to the core.

The core works without any of them: to leave a companion out, remove its folder and its row. The module of a
row declares its verbs, and its ``companion`` adds to what the core does. Nothing else in the core names one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Protocol

import typer

from autotune.errors import UserError

if TYPE_CHECKING:
    from autotune.campaign.bench import Compose
    from autotune.campaign.spec import CampaignSpec
    from autotune.history.objectives import Slot
    from autotune.recommend.recommendation import Recommendation

COMPANIONS = {
    "application": "autotune.application.cli",
    "doe": "autotune.doe.cli",
    "guard": "autotune.guard.cli",
    "lint": "autotune.lint.cli",
    "simulate": "autotune.simulate.cli",
    "site": "autotune.site.cli",
    "tables": "autotune.tables.cli",
}
"""Name of each companion → its module."""


class Sites(Protocol):
    """The port for whole sites: ``conf=site``, and verbs on the directory of one."""

    def tune(self, document: Mapping[str, Any], compose: "Compose", quiet: bool) -> int:
        """Measure the jobs of a site, and return the exit code."""

    def plan(
        self, document: Mapping[str, Any], compose: "Compose", planned: list[tuple[float, float]]
    ) -> int:
        """Print what the jobs of a site cost, add their node-hours, and return the exit code."""

    def measure(self, document: Mapping[str, Any], compose: "Compose") -> int:
        """Time launches of a few small jobs, and return the exit code."""

    def status(self, directory: Path, as_json: bool) -> None:
        """Print how far a site is."""

    def progress(self, directory: Path) -> tuple[str, bool]:
        """Return a text on how far a site is, and whether a process is working on it."""

    def report(self, directory: Path, out: Path | None) -> None:
        """Write the page of a site."""

    def recommendation(self, directory: Path) -> "Recommendation":
        """Return the common setting for all jobs of a site."""


class Recordings(Protocol):
    """The port for recordings of applications, on which verbs of the core act."""

    def page(self, path: Path) -> str:
        """Return the page of a recording as HTML."""

    def timed_slots(self, path: Path) -> "list[tuple[Slot, int, float]]":
        """Return slot, nodes and seconds without waiting of each kind of call, longest first."""

    def tuned_run(self, path: Path) -> Mapping[str, Any]:
        """Return the document of a job that tuned itself."""

    def weights(
        self, text: str, name: str, slots: "Sequence[Slot]", time_s: "Mapping[Slot, float]"
    ) -> "dict[Slot, float]":
        """Return the share of a profile's time that falls on each slot."""

    def print_worth(self, directory: Path, calls: Path, application_s: float | None, as_json: bool) -> None:
        """Print what a recommendation saves a run that makes these calls."""

    def verify(
        self,
        directory: Path,
        command: Sequence[str],
        launches: int | None,
        figure: str | None,
        more_is_better: bool,
        as_json: bool,
    ) -> int:
        """Compare a recommendation with the defaults on an application, and return the exit code."""


@dataclass(frozen=True, slots=True)
class Companion:
    """A companion's verbs and ports, and functions of the core that it changes; these here change nothing."""

    verbs: typer.Typer | None = None
    sites: Sites | None = None
    recordings: Recordings | None = None

    def command_lines(self, words: Sequence[str]) -> list[list[str]]:
        """Return the command line of each campaign that the words stand for."""
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
        """Return a sentence on what a recommendation is worth."""
        del about, recommendation, harmless
        return ""

    def environment_of(self, path: PurePath, text: str) -> dict[str, str] | None:
        """Return variables with the same effect as a file; None where the kind of file is unknown."""
        del path, text
        return None


@cache
def companions() -> tuple[Companion, ...]:
    """Return the companions of the table."""
    return tuple(import_module(module).companion for module in COMPANIONS.values())


def command_lines(words: Sequence[str]) -> Iterable[Sequence[str]]:
    """Return the command line of each campaign that the words stand for."""
    lines = [list(words)]
    for companion in companions():
        lines = [line for former in lines for line in companion.command_lines(former)]
    return lines


def filled(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a composed configuration with the keys that companions fill."""
    configuration = dict(document)
    for companion in companions():
        configuration = companion.filled(configuration)
    return configuration


def worth_text(
    about: "CampaignSpec",
    recommendation: "Recommendation | None",
    harmless: "Recommendation | None" = None,
) -> str:
    """Return a sentence on what a recommendation is worth; empty where no companion knows."""
    texts = (companion.worth_text(about, recommendation, harmless) for companion in companions())
    return "; ".join(filter(None, texts))


def environment_of(path: PurePath, text: str) -> dict[str, str] | None:
    """Return variables with the same effect as a file; None where its kind is unknown."""
    answers = (companion.environment_of(path, text) for companion in companions())
    return next((env for env in answers if env is not None), None)


def sites() -> Sites:
    """Return what whole sites need.

    Raises:
        UserError: no companion has it.
    """
    for companion in companions():
        if companion.sites:
            return companion.sites
    raise UserError("whole sites are not part of this installation", "install all of autotune")


def recordings() -> Recordings:
    """Return what recordings of applications need.

    Raises:
        UserError: no companion has it.
    """
    for companion in companions():
        if companion.recordings:
            return companion.recordings
    raise UserError("recordings of applications are not part of this installation", "install all of autotune")
