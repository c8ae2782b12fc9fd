"""Read a hostfile, and check that all hosts have the same versions of Python, MPI and this project.

If one host has another Python, another MPI or an old copy of this project, the first launch fails with a
message of MPI that names no host. So each host is asked first, by the same command (such as ``ssh``) by which
``mpirun`` will start its daemons, and an error message names the unfit hosts.
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
"""Program that runs on each host; the last line of its output contains the versions."""


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """Hold one host's answer."""

    host: str  # Name of the host in the hostfile or scenario.
    name: str = ""  # Name of the host as it reports itself.
    has: Mapping[str, str] | None = None  # Versions of Python, MPI and this project; None: no answer.
    complaint: str = ""  # Reason why the host did not answer; empty if it did.


def read_hostfile(text: str) -> tuple[str, ...]:
    """Return the host names of a hostfile, in order, each once.

    Formats of Open MPI (``cn0 slots=2``), MPICH (``cn0:2``) and plain lists are read. Slots are ignored: the
    scenario's ``cluster.ppn`` sets how many ranks a node gets.

    Raises:
        ScenarioError: the file contains no host.
    """
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    names = [words[0].partition(":")[0] for words in lines if words]
    if not names:
        raise ScenarioError("cluster.hostfile names no host", "one host name on each line")
    return tuple(dict.fromkeys(names))


def ask_argv(agent: Sequence[str], host: str, python: str, mpirun: str, env: Mapping[str, str]) -> list[str]:
    """Return the command line that asks one host for its versions.

    ``agent`` (such as ``ssh``) starts a command on a host, ``env`` has the paths by which a host finds the
    project and MPI. A shell on the host reads the words after the host's name, as it does when ``mpirun``
    starts its daemons; so each word is quoted.
    """
    settings = [f"{name}={value}" for name, value in sorted(env.items())]
    return [*agent, host, shlex.join(["env", *settings, python, "-c", _QUESTION, mpirun])]


def check(
    hosts: Sequence[str], agent: Sequence[str], python: str, mpirun: str, env: Mapping[str, str],
    timeout_s: float = 60.0,
) -> tuple[HostAnswer, ...]:  # fmt: skip
    """Ask each host for its versions by ``ask_argv``, for at most ``timeout_s`` seconds; return the answers.

    Raises:
        StackError: a host does not answer, or has other versions than most; the message names all such hosts.
    """

    def asked(host: str) -> HostAnswer:
        return _ask(host, ask_argv(agent, host, python, mpirun, env), timeout_s)

    with ThreadPoolExecutor(max_workers=min(32, len(hosts))) as pool:
        answers = tuple(pool.map(asked, hosts))
    if complaints := complaints_about(answers):
        raise StackError(
            "hosts unfit for a campaign:\n" + "\n".join(f"  {line}" for line in complaints),
            f"each was asked by: {shlex.join([*agent, 'HOST', '…'])}",
        )
    return answers


def complaints_about(answers: Sequence[HostAnswer]) -> list[str]:
    """Return a line for each host that did not answer, or has another version than most."""
    lines = [f"{answer.host}: {answer.complaint}" for answer in answers if answer.has is None]
    answered = [(answer.host, answer.has) for answer in answers if answer.has is not None]
    for component in ("Python", "MPI", "autotune"):
        versions = [has[component] for _, has in answered]
        usual = max(versions, key=versions.count, default="")
        odd = [(host, has[component] or "missing") for host, has in answered if has[component] != usual]
        lines += [f"{host}: {component} {version}, elsewhere {usual}" for host, version in odd]
    return lines


def project_version() -> str:
    """Return the version of this project with a digest of its code, since copies of a version can differ."""
    digest = sha256()
    folder = Path(autotune.__file__).parent
    for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.toml")]):
        digest.update(path.read_bytes())
    return f"{autotune.__version__} ({digest.hexdigest()[:8]})"


def heard(argv: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run a command without input and return its exit code and output, within ``timeout_s`` seconds."""
    return subprocess.run(
        list(argv), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
    )


def _ask(host: str, words: Sequence[str], timeout_s: float) -> HostAnswer:
    try:
        reply = heard(words, timeout_s)
    except subprocess.TimeoutExpired:
        return HostAnswer(host, complaint=f"no answer in {timeout_s:.0f} s")
    except OSError as exc:
        return HostAnswer(host, complaint=f"{words[0]}: {exc.strerror or exc}")
    for line in reversed(reply.stdout.splitlines()):
        mark, _, document = line.partition(" ")
        if mark == "AUTOTUNE":
            answer = json.loads(document)
            return HostAnswer(host, answer["name"], answer["has"])
    last = (reply.stderr.strip() or f"exit code {reply.returncode}, said nothing").splitlines()[-1]
    return HostAnswer(host, complaint=last)
