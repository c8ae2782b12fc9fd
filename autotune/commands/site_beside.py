"""Jobs of a site beside each other: each campaign in a process of its own, which ends when this one does.

They share nothing but the configuration that they are given: each writes its own journal alone, and what
comes next is read out of these once all have ended.
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

_ROUND_S = 0.2  # Between looks whether one has ended.


def made_beside(
    documents: Mapping[str, Mapping[str, Any]], origin: Mapping[str, Any], quiet: bool, folder: Path
) -> list[int]:
    """Run the campaigns of some configurations, by name, to the end of all; the exit codes.

    What each prints goes to a file of the folder, and is printed when it has ended.

    Raises:
        Interrupted: the work is to end, or one had to: its allocation is nearly over.
        StorageError: one could not be written.
    """
    codes, running = dict[str, int](), dict[str, Background]()
    make_empty(folder)
    with ExitStack() as stack:
        for name, document in documents.items():
            asked = json.dumps({"document": document, "quiet": quiet, **origin})
            line = shlex.join([sys.executable, "-P", "-m", __name__, asked])
            one = Background(f"exec {line}", folder / f"{name.replace(' ', '')}.out")
            running[name] = stack.enter_context(one)
        for one in running.values():
            stack.callback(one.end)  # of all, before any is waited for
        while len(codes) < len(running):
            pause(_ROUND_S)
            for name, one in running.items():
                if name not in codes and (code := one.exit_code) is not None:
                    codes[name] = int(ExitCode.STUCK) if code < 0 else code
                    killed = f"{name}: ended by signal {-code}\n" if code < 0 else ""
                    sys.stdout.write(f"\n{name}:\n{one.said}{killed}")
                    sys.stdout.flush()
    for end, error in ((ExitCode.LOCKED, StorageError), (ExitCode.INTERRUPTED, Interrupted)):
        if named := ", ".join(name for name, code in codes.items() if code == end):
            raise error(f"{named}: see above", "the same command continues")
    return list(codes.values())


def main(text: str) -> int:
    """In a job's process: run its campaign; the exit code."""
    asked = json.loads(text)
    try:
        with plain_output(), heeded():
            scenario, place = Composer(asked["name"], asked["launcher"])(asked["document"])
            return tune(place.asked(scenario), place, asked["quiet"], proving=False)
    except AutotuneError as exc:
        sys.stdout.write(f"{exc}\n")
        return int(exc.exit_code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
