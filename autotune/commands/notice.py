"""``campaign.notify``: run a command that the user chose when a campaign ends."""

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
    """Holds the outcome of a campaign; the code that runs the campaign sets its fields."""

    text: str = ""  # The result in one line.
    code: int = ExitCode.WELL


@contextmanager
def notifying(command: Sequence[str], directory: Path) -> Iterator[CampaignEnding]:
    """Run a command when the work inside the context ends.

    Three words are appended to the command: the directory; the result in one line, or the message of the
    ``AutotuneError`` that leaves the context; and the exit code. The command is started without a shell. If
    it fails, a warning is printed and nothing else changes. If a batch job continues the work, the command is
    not run.

    Raises:
        ScenarioError: there is no such program. The error is raised before the work begins.
    """
    if command and shutil.which(command[0]) is None:
        raise ScenarioError(
            f"campaign.notify={list(command)}: there is no program {command[0]!r}",
            "expected a program and its words, e.g. campaign.notify=[mail,-s,autotune,me]",
        )
    ending = CampaignEnding()
    try:
        yield ending
    except HandedOver:  # another job continues, so the campaign has not ended
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
