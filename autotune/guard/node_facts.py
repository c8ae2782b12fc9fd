"""Collect the state of the node on which launches run, which may differ from this machine (``guard``).

Compute nodes have other devices, kernels and firmware than the log-in node on which ``guard`` may run. So a
process of one rank is started on a compute node, in the same way as the launches, and collects the facts
there. It reads a question from a file in the directory of its launch, and writes the answer to the same
directory.
"""

import json
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from autotune.campaign.bench import Bench
from autotune.errors import StackError
from autotune.guard.facts import Facts, environment_of, facts_of
from autotune.history.folder import make_empty
from autotune.probe.protocol import ProbeResult
from autotune.resources import user_text
from autotune.stacks.installation import Installation, find
from autotune.stacks.ports import LaunchRequest
from autotune.structure import Document, plain

_QUESTION, _ANSWER = "question.json", "facts.json"
_TIMEOUT_S = 120.0
"""Time limit in seconds of the process that collects the facts: querying the libraries twice takes seconds,
but a shared file system may be slow."""
_A_RANKS = re.compile(r"(OMPI|OPAL|PRTE|PMIX|PMI|MPI_LOCAL|MPIEXEC|HYDI|I_MPI_HYDRA)_.*")
"""Variables that a launcher sets for each rank, and that the queried libraries would mistake for settings."""


def facts_there(
    bench: Bench,
    installation: Installation,
    settings: Iterable[Path],
    work_folder: Path,
    steady: bool = False,
) -> Facts:
    """Return the facts of the first node on which launches of a bench run; see ``facts_of``.

    Args:
        bench: The MPI and the launcher with which launches are made.
        installation: The MPI.
        settings: Paths of the files that apply the tuned settings.
        work_folder: Folder for the launch; all nodes must see it.
        steady: As for ``facts_of``.

    Raises:
        StackError: a library does not print its variables, or no process can be started on the node.
    """
    launcher = bench.launcher
    if launcher is None or not getattr(launcher, "away", False):
        return facts_of(installation, settings, steady)
    directory = make_empty(work_folder / "facts").absolute()
    question = {
        "mpirun": str(installation.mpirun),
        "settings": [str(path.absolute()) for path in settings],
        "steady": steady,
        "environment": sorted(os.environ),
    }
    (directory / _QUESTION).write_text(json.dumps(question), encoding="utf-8")
    outcome = launcher.run(
        LaunchRequest(
            directory=directory,
            program=(sys.executable, "-P", "-m", __name__, str(directory)),
            env={},
            placement=replace(bench.placement, ranks=1, nodes=1, ppn=1, map_by="", bind_to=""),
            timeout_s=_TIMEOUT_S,
        )
    )
    path = directory / _ANSWER
    if not path.exists():
        raise StackError(f"no facts of the nodes: {outcome.reason}", f"see {directory}")
    facts = Document(str(path), own=True).structured(Facts, json.loads(user_text(path)))
    return replace(facts, environment=environment_of(installation))


def main(directory: Path) -> int:
    """Collect the facts that the question in a directory asks for; this runs on the compute node."""
    question = json.loads((directory / _QUESTION).read_text(encoding="utf-8"))
    for name in set(os.environ) - set(question["environment"]):
        if _A_RANKS.fullmatch(name):
            del os.environ[name]
    facts = facts_of(find(question["mpirun"]), map(Path, question["settings"]), question["steady"])
    (directory / _ANSWER).write_text(json.dumps(plain(facts)), encoding="utf-8")
    ProbeResult("ok").write(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
