"""Run several jobs of a site at the same time, each job's campaign in a child process.

A child process ends when its parent ends. The processes share only the configuration, and each writes the
journal of its own campaign. The next jobs are chosen from the journals once all processes have ended.
"""

import json
import shlex
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from autotune.campaign.interruption import heeded, pause
from autotune.commands.hydra_bridge import Composer
from autotune.commands.terminal import plain_output
from autotune.commands.tune import tune
from autotune.errors import AutotuneError, ExitCode, Interrupted, StorageError
from autotune.history.folder import make_empty
from autotune.stacks.application import Background

_ROUND_S = 0.2  # Seconds between two checks whether a process has ended.


def run_side_by_side(
    documents: Mapping[str, Mapping[str, Any]], origin: Mapping[str, Any], quiet: bool, folder: Path
) -> list[int]:
    """Run the campaigns of several jobs at the same time until all have ended, and return the exit codes.

    The output of each campaign goes to a file and is printed when its process has ended.

    Args:
        documents: The configuration of each job, by the job's name.
        origin: The property ``origin`` of the composer, from which the processes make their own composer.
        quiet: Whether to print only the results.
        folder: Directory for the output; its earlier contents are removed.

    Raises:
        Interrupted: the user ended the work, or an allocation is nearly over.
        StorageError: a campaign could not be written.
    """
    codes, running = dict[str, int](), dict[str, Background]()
    make_empty(folder)
    with ExitStack() as stack:
        for name, document in documents.items():
            request = json.dumps({"document": document, "quiet": quiet, **origin})
            line = shlex.join([sys.executable, "-P", "-m", __name__, request])
            process = Background(f"exec {line}", folder / f"{name.replace(' ', '')}.out")
            running[name] = stack.enter_context(process)
        for process in running.values():
            stack.callback(process.end)  # on exit all processes are asked to end before any is waited for
        while len(codes) < len(running):
            pause(_ROUND_S)
            for name, process in running.items():
                if name not in codes and (code := process.exit_code) is not None:
                    codes[name] = int(ExitCode.STUCK) if code < 0 else code
                    killed = f"{name}: ended by signal {-code}\n" if code < 0 else ""
                    sys.stdout.write(f"\n{name}:\n{process.printed}{killed}")
                    sys.stdout.flush()
    for end, error in ((ExitCode.LOCKED, StorageError), (ExitCode.INTERRUPTED, Interrupted)):
        if names := ", ".join(name for name, code in codes.items() if code == end):
            raise error(f"{names}: see above", "the same command continues")
    return list(codes.values())


def main(text: str) -> int:
    """Run the campaign of a job in its own process, as a JSON document asks; return the exit code."""
    request = json.loads(text)
    try:
        with plain_output(), heeded():
            scenario, place = Composer(request["name"], request["launcher"])(request["document"])
            return tune(place.asked(scenario), place, request["quiet"], proving=False)
    except AutotuneError as exc:
        sys.stdout.write(f"{exc}\n")
        return int(exc.exit_code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
