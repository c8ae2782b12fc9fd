"""``campaign.notify``: a command of the user's that is run when a campaign ends."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from autotune.errors import AutotuneError, ExitCode, HandedOver, ScenarioError


@dataclass
class CampaignEnding:
    """How a campaign ended, as far as is known."""

    text: str = ""  # In one line.
    code: int = ExitCode.WELL  # The exit code.


@contextmanager
def notifying(command: Sequence[str], directory: Path) -> Iterator[CampaignEnding]:
    """Run the command when the work inside ends: it gets the directory, one line and the exit code.

    It is run as it is, by no shell. If it fails, one warning says so and nothing else changes.

    Raises:
        ScenarioError: there is no such program, before anything is done.
    """
    if command and shutil.which(command[0]) is None:
        raise ScenarioError(
            f"campaign.notify={list(command)}: there is no program {command[0]!r}",
            "expected a program and its words, e.g. campaign.notify=[mail,-s,autotune,me]",
        )
    ending = CampaignEnding()
    try:
        yield ending
    except HandedOver:  # another job goes on
        raise
    except AutotuneError as error:
        _tell(command, directory, CampaignEnding(error.on_one_line, error.exit_code))
        raise
    _tell(command, directory, ending)


def _tell(command: Sequence[str], directory: Path, ending: CampaignEnding) -> None:
    if not command:
        return
    notice = import_module("hydra_plugins.autotune._notice")
    text = " ".join(ending.text.split())
    if wrong := notice.run((*command, str(directory.absolute()), text, str(int(ending.code)))):
        sys.stderr.write(f"autotune: campaign.notify={list(command)} failed: {wrong}\n")
