"""How many ranks a launcher's command starts, of a command that was echoed into a log.

A launcher's options end where its program begins: what follows, `nice -n 10` as much as the benchmark's own
`-n`, is not the launcher's. Where the command does not say, the ranks are not known.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Launcher:
    """Options of one launcher, without their dashes."""

    ranks: str
    """Those with the number of ranks."""
    groups: str = ""
    """Those with a number of nodes or resource sets."""
    each: str = ""
    """Those with the ranks of one of these."""
    takes: str = ""
    """Others with a value."""
    flags: str = ""
    """Those without a value, where all others have one."""
    two: str = ""
    """Those with two values."""

    def values(self, option: str) -> int:
        """How many words behind an option are its own."""
        if option in self.two.split():
            return 2
        if self.flags:
            return int(option not in self.flags.split())
        return int(option in f"{self.ranks} {self.groups} {self.each} {self.takes}".split())


_SRUN = _Launcher(
    "n ntasks",
    "N nodes",
    "ntasks-per-node tasks-per-node",
    flags="E H I k K l O Q s u v vv vvv V X Z contiguous disable-status exact exclusive hold"
    " immediate kill-on-bad-exit label multi-prog no-allocate no-kill overcommit oversubscribe"
    " overlap preserve-env pty quiet quit-on-interrupt reboot share spread-job unbuffered use-"
    " min-nodes verbose version wait-all-nodes whole",
)
_MPIRUN = _Launcher(
    "n np c",
    takes="N x H host hosts hostfile machinefile machine f default-hostfile rankfile rf map-by bind-"
    " to rank-by tune am wdir wd path prefix timeout personality npernode npersocket ppn perhost"
    " ppr cpu-bind mem-bind cpus-per-proc cpus-per-rank cpu-list cpu-set output display output-"
    " filename stdin app runtime-options report-uri genvlist envlist iface launcher launcher-"
    " exec bootstrap rmk configfile prepend-pattern outfile-pattern errfile-pattern order-nodes"
    " gtool usize umask arch topolib depth d hosts-file o e tmpdir gpu-bind line-buffer-size",
    two="mca gmca omca prtemca pmixmca env genv",
)
"""Of Open MPI, Hydra and PALS: none of them gives an option another meaning that concerns ranks."""

_LAUNCHERS: Mapping[str, _Launcher] = {
    **dict.fromkeys(("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "prun", "ibrun"), _MPIRUN),
    **dict.fromkeys((f"{n}.{of}" for n in ("mpirun", "mpiexec") for of in ("openmpi", "mpich")), _MPIRUN),
    **dict.fromkeys(("mpirun_rsh", "mpiexec_mpt", "mpirun_mpt", "mpiexec.slurm", "ccc_mprun"), _MPIRUN),
    **dict.fromkeys(("srun", "yhrun"), _SRUN),
    "flux": _Launcher(
        "n ntasks",
        "N nodes",
        "tasks-per-node",
        takes="c cores-per-task g gpus-per-task o setopt S setattr t time-limit q queue B bank env env-"
        " remove env-file rlimit cwd output error input requires dependency begin-time urgency job-"
        " name taskmap conf l x",
    ),
    "jsrun": _Launcher(
        "p np",
        "n nrs",
        "a tasks_per_rs",
        flags="i immediate V version v verbose E_all progress use_spindle use_resources H",
    ),
    "lrun": _Launcher("n", "N", "T", takes="M g p"),
    "aprun": _Launcher(
        "n pes",
        takes="N pes-per-node S sn d depth j cc cpu-binding cp sl m memory-per-pe L node-list e env B r p t",
    ),
    "runjob": _Launcher("n np", takes="p ranks-per-node block corner shape envs cwd exe args mapping"),
    "poe": _Launcher("procs", "nodes", "tasks_per_node", takes="hfile rmpool"),
}

_NAMES = "|".join(re.escape(name) for name in _LAUNCHERS if name != "flux")
_MENTIONED = re.compile(rf"(?:^|[\s/;&|(\"'`])(?:{_NAMES}|flux +(?:mini +)?(?:run|submit|exec))(?=\s)")
_UNSAID = re.compile(r"^TACC: +Starting parallel tasks")
"""What `ibrun` prints of a launch of its own."""


def is_command(line: str) -> bool:
    """Whether a launcher's command stands in a line."""
    return _MENTIONED.search(line) is not None or _UNSAID.match(line) is not None


def ranks(line: str) -> int | None:
    """Ranks that the last launcher of a line starts, all of its programs together; None: it does not say."""
    words = _words(line)
    if quoted := next((word for word in reversed(words) if " " in word and is_command(word)), ""):
        return ranks(quoted)  # `sh -c "mpirun …"`
    at = next((i for i in reversed(range(len(words))) if _is_launcher(words, i)), None)
    if at is None:
        return None
    launcher = _LAUNCHERS[words[at].rpartition("/")[2]]
    rest = words[at + 1 :]
    if words[at].endswith("flux"):
        rest = rest[1 + (rest[0] == "mini") :]
    total = 0
    for program in _programs(rest):
        its = _ranks(program, launcher)
        if its is None:
            return None
        total += its
    return total


def _words(line: str) -> list[str]:
    """The words of a line up to the end of its last command with a launcher."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&()<>")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:  # a quote that is not closed: prose
        words = line.split()
    begins = max((i for i in range(len(words)) if _is_launcher(words, i)), default=0)
    ends = (i for i in range(begins, len(words)) if words[i] and not words[i].strip(";|&()<>"))
    return words[: next(ends, len(words))]


def _is_launcher(words: Sequence[str], at: int) -> bool:
    name = words[at].rpartition("/")[2]
    if name == "flux":
        return len(words) > at + 1 and words[at + 1] in ("run", "submit", "exec", "mini")
    return name in _LAUNCHERS


def _programs(words: Sequence[str]) -> list[Sequence[str]]:
    """What stands between the colons of a launch of several programs."""
    colons = [i for i, word in enumerate(words) if word == ":"]
    return [words[a + 1 : b] for a, b in zip([-1, *colons], [*colons, len(words)], strict=True)]


def _ranks(words: Sequence[str], launcher: _Launcher) -> int | None:
    said: dict[str, str] = {}
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at].strip("-"):
        word = words[at]
        name, equals, value = word.lstrip("-").partition("=")
        glued = re.fullmatch(r"-([A-Za-z])(\d+)", word)
        if glued and launcher.values(glued[1]):
            said[glued[1]] = glued[2]
        elif equals:
            said[name] = value
        else:
            count = launcher.values(name)
            if count > 1 and "=" in "".join(words[at + 1 : at + 2]):
                count = 1  # PALS' `--env A=B`, where Hydra's has two words
            if count == 1 and at + 1 < len(words):
                said[name] = words[at + 1]
            at += count
        at += 1

    def number(options: str) -> int | None:
        values = [said[name] for name in options.split() if name in said]
        return int(values[-1]) if values and values[-1].isdecimal() else None

    total = number(launcher.ranks)
    if total is not None or any(name in said for name in launcher.ranks.split()):
        return total
    groups, each = number(launcher.groups), number(launcher.each)
    return groups * each if groups is not None and each is not None else None
