"""Named hosts: reading a hostfile, and asking every host whether it is fit for a campaign.

A campaign in which one host has another Python, another MPI or an old copy of this project fails in its
first launch with a message of MPI that names nobody. So each host is asked first, over the same agent that
``mpirun`` will use, and those that do not fit are named.
"""

import json
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import autotune
from autotune.errors import ScenarioError, StackError

_QUESTION = """
import json, platform, socket, subprocess, sys
from hydra_plugins.autotune._hosts import project_version
said = subprocess.run([sys.argv[1], "--version"], capture_output=True, text=True, timeout=60).stdout
has = {"Python": platform.python_version(), "MPI": " ".join(said.split()[:4]), "autotune": project_version()}
print("AUTOTUNE", json.dumps({"name": socket.gethostname(), "has": has}))
"""
"""The program that runs on each host; the last line of its output is the answer."""


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """One host's answer."""

    host: str  # As it was asked for.
    name: str = ""  # As it calls itself.
    has: Mapping[str, str] | None = None  # Version of Python, MPI and this project; None: it did not answer.
    complaint: str = ""  # Why it did not answer.


def read_hostfile(text: str) -> tuple[str, ...]:
    """The host names of a hostfile, in order, each once.

    Open MPI's (``cn0 slots=2``), MPICH's (``cn0:2``) and plain lists are read; slots are not: how many ranks
    a node gets is the scenario's ``cluster.ppn``.

    Raises:
        ScenarioError: no host in it.
    """
    names = []
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words:
            names.append(words[0].partition(":")[0])
    if not names:
        raise ScenarioError("cluster.hostfile names no host", "one host name on each line")
    return tuple(dict.fromkeys(names))


def ask_argv(agent: Sequence[str], host: str, python: str, mpirun: str, env: Mapping[str, str]) -> list[str]:
    """The words that ask one host.

    Whatever follows the host's name is read by a shell there, as ``mpirun``'s own start of its daemons is; so
    each word is quoted.
    """
    settings = [f"{name}={value}" for name, value in sorted(env.items())]
    there = ["env", *settings, python, "-c", _QUESTION, mpirun]
    return [*agent, host, shlex.join(there)]


def check(
    hosts: Sequence[str],
    agent: Sequence[str],
    python: str,
    mpirun: str,
    env: Mapping[str, str],
    timeout_s: float = 60.0,
) -> tuple[HostAnswer, ...]:
    """The answer of every host, all being fit.

    Each is asked by words that start a command on a host, such as ``ssh``; variables are those that the
    project needs to be found there.

    Raises:
        StackError: a host that does not answer, or has other versions than most; all such are named.
    """
    with ThreadPoolExecutor(max_workers=min(32, len(hosts))) as pool:
        answers = tuple(
            pool.map(lambda host: _ask(host, ask_argv(agent, host, python, mpirun, env), timeout_s), hosts)
        )
    if complaints := complaints_about(answers):
        raise StackError(
            "hosts unfit for a campaign:\n" + "\n".join(f"  {line}" for line in complaints),
            f"each was asked by: {shlex.join([*agent, 'HOST', '…'])}",
        )
    return answers


def complaints_about(answers: Sequence[HostAnswer]) -> list[str]:
    """A line for each host that did not answer, or has not what most have."""
    lines = [f"{one.host}: {one.complaint}" for one in answers if one.has is None]
    for what in ("Python", "MPI", "autotune"):
        versions = [one.has[what] for one in answers if one.has is not None]
        usual = max(versions, key=versions.count, default="")
        lines += [
            f"{one.host}: {what} {one.has[what] or 'missing'}, elsewhere {usual}"
            for one in answers
            if one.has is not None and one.has[what] != usual
        ]
    return lines


def project_version() -> str:
    """Version of this project with a digest of its code: two checkouts of one version can differ."""
    digest = sha256()
    folder = Path(autotune.__file__).parent
    for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.toml")]):
        digest.update(path.read_bytes())
    return f"{autotune.__version__} ({digest.hexdigest()[:8]})"


def _ask(host: str, words: Sequence[str], timeout_s: float) -> HostAnswer:
    try:
        reply = subprocess.run(
            list(words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return HostAnswer(host, complaint=f"no answer in {timeout_s:.0f} s")
    except OSError as exc:
        return HostAnswer(host, complaint=f"{words[0]}: {exc.strerror or exc}")
    for line in reversed(reply.stdout.splitlines()):
        mark, _, document = line.partition(" ")
        if mark == "AUTOTUNE":
            said = json.loads(document)
            return HostAnswer(host, said["name"], said["has"])
    last = (reply.stderr.strip() or f"exit code {reply.returncode}, said nothing").splitlines()[-1]
    return HostAnswer(host, complaint=last)
