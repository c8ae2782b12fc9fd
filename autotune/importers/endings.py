"""How those around a benchmark say that it ended early: schedulers, launchers, MPI libraries, kernel, shell.

One table, for all formats of logs: whoever reports an end of its own kind gets a line here, and tables
before such a report are half tables. Words stand as they are printed; letters in either case are taken.
"""

import re
from collections.abc import Mapping

_SIGNAL = (
    "Hangup|Quit|Illegal instruction|Trace/breakpoint trap|Aborted|Bus error|Floating point exception|Killed"
    "|User defined signal [12]|Segmentation fault|Alarm clock|Terminated|Stack fault|Bad system call"
    "|CPU time limit exceeded|File size limit exceeded|Virtual timer expired"
)
"""Signals that end a process, as the C library names them and a shell prints them."""

ENDINGS: Mapping[str, tuple[str, ...]] = {
    "Slurm": (
        r"^srun: error: .*\b(?:tasks?|step)\b",
        r"^srun: (?:error: )?(?:Force Terminated|Terminating|Job step aborted|forcing job term|Node failure)",
        r"^srun: error: (?:Timed out|Aborting|Unable to (?:create step|confirm|launch)|Job .*\bexpired)",
        r"^slurmstepd(?:-\S+)?: error: (?:\*\*\*|Exceeded|Detected|.*exceeded memory limit)",
        r"^salloc: .*\b(?:revoked|Relinquishing job allocation .* due)",
        r"DUE TO (?:TIME LIMIT|NODE FAILURE|PREEMPTION|JOB REQUEUE)|\bCANCELLED AT\b",
    ),
    "PBS": (
        r"^-?=>> ?PBS:.*\b(?:killed|exceeded|terminated?|aborted|deleted)\b",
        r"^PBS: job (?:killed|terminated)",
        r"^(?:aborted|killed) by PBS",
        r"^MOAB_INFO: .*\b(?:exceeded|killed|cancel)",
    ),
    "LSF": (
        r"^TERM_[A-Z_]+: ",
        r"^Exited(?:\.|;| with (?:exit code [1-9]|signal)| by (?:LSF )?signal)",
    ),
    "Grid Engine": (
        r"\bexceed(?:s|ed) (?:job )?(?:hard|soft) (?:limit|wallclock)",
        r"\b(?:qmaster|execd) enforced h_\w+",
        r"\binitiate (?:soft notify|terminate) method",
        r"^error: (?:executing task of job|commlib error)",
        r"^Job \d+(?:\.\d+)? \(.*\) Aborted",
    ),
    "HTCondor, OAR, Fujitsu's TCS, ParaStation": (
        r"\bJob was (?:evicted|aborted)",
        r"^#+ OAR \[.*\] Job \d+ KILLED",
        r"^\[ERR\.\] PLE ",
        r"^PSI(?:logger|d): .*\b(?:exited (?:on signal|with status [1-9])|died|killed|timed? ?out)",
    ),
    "flux": (
        r"\bflux-(?:job|run|submit|alloc|batch|proxy|exec): task\(s\) (?!exited with exit code 0\b)",
        r"\bflux-shell\[\d+\]: +(?:FATAL|ERROR)\b",
        r"\bjob\.exception\b.*\bseverity=0\b",
    ),
    "jsrun": (
        r"ERROR: +One or more process(?:es)? ",
        r"\bJSM (?:server|daemon|client)\b.*\b(?:not responding|died|terminated|lost)",
        r"^Error initializing RM connection",
    ),
    "aprun": (
        r"\bApid \d+:? .*(?:initiated application termination|Caught signal|OOM killer|\bkill)",
        r"\bPE RANK \d+ exit signal",
        r"^_pmiu_daemon\(",
        r"^Application \d+ exit (?:signals: |codes: (?!0\s*$))",
        r"^apsched: ",
        r"^aprun: (?:Apid|Caught|Exiting|Application|.*\b(?:killed|terminated|exceeds)\b)",
    ),
    "PALS": (
        r"^ping failed on \S+",
        r"^\S+: rank \d+ (?:died from signal|exited with (?:code|status) [1-9]|was killed)",
        r"^(?:mpiexec|aprun|pals\w*): .*\b(?:RPC timeout|launch failed|killed|terminat\w+|aborted?)\b",
    ),
    "MVAPICH's launcher": (
        r"\[\S*:?(?:mpispawn_\d+|mpirun_rsh)\]\[\w+\]",
        r"\[\S*mpi_rank_\d+\]\[(?:error_sighandler|\w*abort\w*)\]",
        r"^\[cli_\d+\]: aborting job",
        r"\bMPI process died\b",
    ),
    "MPICH and what is made from it": (
        r"application called MPI_Abort",
        r"\bAbort\(-?\d+\) (?:on node|\(rank)",
        r"^(?:internal )?aborting job:",
        r"\bMPICH2? ERROR \[",
        r"Fatal error in (?:P?MPI|internal)_",
        r"BAD TERMINATION OF ONE|YOUR APPLICATION TERMINATED WITH|APPLICATION TIMED OUT",
        r"^\[(?:mpiexec|proxy:[\d:]+)@\S+\] .*\b(?:fail|abort|terminated|timed out|Ctrl-C|assert)",
        r"^Ctrl-C caught\.\.\. cleaning up",
        r"^=+ +(?:EXIT CODE: [1-9]|KILLED BY SIGNAL:)",
    ),
    "Open MPI": (
        r"MPI_ABORT was invoked",
        r"Primary job\s+terminated normally, but",
        r"\*\*\* An error occurred in|\*\*\* Process received signal \*\*\*|MPI_ERRORS_ARE_FATAL",
        r"\b(?:mpirun|mpiexec|orterun|prterun|srun)\S* (?:noticed|detected|was unable|has exited|failed)",
        r"^(?:mpirun|mpiexec|orterun|prterun): (?:error|fatal|killing job|abort|Job \S+ (?:aborted|failed))",
        r"\b(?:ORTE|PRTE|PMIX)\b.*\b(?:lost (?:communication|connection)|unable to (?:reliably )?start)",
        r"^A daemon .*\bdied unexpectedly|\bdaemon .*\baborted\b",
        r"There are not enough slots",
        r"time limit for job execution has been reached|The job will now be aborted",
        r"It looks like MPI_INIT failed",
        r"processes are unable to reach each other",
    ),
    "MPT, Spectrum MPI, POE, runjob": (
        r"^MPT ERROR:|\brank \d+ has terminated without calling MPI_Finalize",
        r"\bMPI Application rank \d+ (?:killed|exited) before MPI_Finalize",
        r"^ERROR: 0031-\d+",
        r"\bibm\.runjob\.client\.Job: (?:terminated|abnormal)",
    ),
    "UCX": (r"Caught signal \d+", r"\bTransport retry count exceeded"),
    "the kernel": (
        r"oom[-_]kill|Out Of Memory|\bkilled process \d+",
        r"Connection (?:to \S+ )?closed by remote host",
    ),
    "the C library": (
        r"Segmentation fault|\bBus error\b",
        r"^\*\*\* (?:buffer overflow|stack smashing) detected",
        r"^(?:free|malloc|realloc|munmap_chunk)\(\): (?:invalid|corrupted|memory|double)|double free or corr",
        r"^terminate called (?:after|without)|: Assertion .* failed\.",
        r": error while loading shared libraries:",
        r"^Program (?:received|terminated with) signal|^forrtl: severe",
    ),
    "the shell": (
        rf"^\s*(?:{_SIGNAL})(?: *\(core dumped\))?\s*$",
        rf"^(?:\[\d+\])? *[-+]? *(?:\d+ +)?(?:{_SIGNAL})(?: *\(core dumped\))?\s\s+\S",  # of a job of its own
        rf"^\S.*: line \d+: +\d+ (?:{_SIGNAL})\b",
        rf"^(?:zsh|-?bash|k?sh|t?csh|dash): (?:{_SIGNAL})\b",
        r"^timeout: (?:sending signal|the monitored command dumped core)",
    ),
    "somebody": (
        r"\b(?:terminated|killed|died|exited|aborted|received)\b.{0,40}\b(?:signal[ :]+\d|SIG[A-Z]{3,4}\b)",
        r"\b(?:time|clock|memory|run) ?limit\b.*\b(?:exceeded|reached|expired)\b",
        r"\b(?:exceed(?:s|ed|ing)|reached)\b.*\b(?:wall ?time|wall[- ]?clock|time ?limit|memory limit)\b",
        r"\bjob\b(?: \S+)?:? (?:was |has been |is being )?(?:killed|cancell?ed|aborted|preempted)\b",
        r"\bjob\b(?: \S+)?:? (?:was |has been |is being )?terminated\b(?! normally)",
        r"\b(?:daemon|process|rank|task|node)\b.{0,30}\bdied\b",
        r"\bran out of (?:wall ?|run ?)?time\b|\btime (?:is )?exhausted\b",
        r"\bexit(?:ed)?(?: with)?(?: exit)? (?:code|status)[ :=]+(?:12[4-9]|13\d|14[0-3])\b|\bcore dumped\b",
    ),
}
"""Who reports → patterns of the lines in which they do."""

_ALL = [pattern for patterns in ENDINGS.values() for pattern in patterns]
_BEGIN = [
    pattern for pattern in _ALL if pattern.startswith("^") and "|" not in re.sub(r"\(.*\)", "", pattern)
]
_ANY = tuple(
    re.compile("|".join(patterns), re.IGNORECASE)
    for patterns in (_BEGIN, [pattern for pattern in _ALL if pattern not in _BEGIN])
)
"""Patterns of a line's beginning, tried once, and those that are looked for all along it."""
_STEMS = (
    *("abort", "alarm", "assert", "cancel", "caught", "clock", "close", "corrupt", "ctrl-c", "died", "dump"),
    *("due to", "enforce", "enough", "err", "evict", "exceed", "except", "exit", "expire", "fail", "fatal"),
    *("fault", "hangup", "illegal", "initiat", "invalid", "kill", "limit", "looks like", "lost", "memory"),
    *(
        "oom",
        "ping failed",
        "ple ",
        "pmi",
        "quit",
        "reached",
        "revoke",
        "ran out",
        "exhaust",
        "seve",
        "signal",
        "smash",
        "system call",
        "term",
    ),
    *("timed", "timeout", "trap", "unable", "unexpected", "respond", "relinquish", "preempt", "apsched"),
)
"""Every pattern wants one of these, and most lines have none: they are done with at a tenth of the cost."""
_LONGEST = 1000
"""Characters of a line that are looked at: messages come first, and patterns may look back over them all."""


def ended_early(line: str) -> bool:
    """Whether somebody says in this line that a run failed, was ended or was cut off."""
    said = line[:_LONGEST]
    low = said.lower()
    if not any(stem in low for stem in _STEMS):
        return False
    begin, within = _ANY
    return begin.match(said) is not None or within.search(said) is not None


def reporter(line: str) -> str:
    """Who says it: the first of ``ENDINGS`` with a pattern of this line; empty where nobody does."""
    said = line[:_LONGEST]
    return next(
        (who for who, its in ENDINGS.items() if any(re.search(p, said, re.IGNORECASE) for p in its)), ""
    )
