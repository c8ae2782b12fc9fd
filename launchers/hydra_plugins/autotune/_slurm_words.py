"""Interpret texts of Slurm: states and reasons of jobs, states of nodes, error messages, times."""

import re
from dataclasses import dataclass
from datetime import datetime

WAITING = "waiting"  # Class of the states of a job that has not started.
RUNNING = "running"  # Class of the states of a job that has started and not ended.

_STATES = {
    WAITING: "PENDING CONFIGURING REQUEUED REQUEUE_FED REQUEUE_HOLD SPECIAL_EXIT RESV_DEL_HOLD",
    RUNNING: "RUNNING COMPLETING RESIZING SIGNALING STAGE_OUT STOPPED SUSPENDED",
    "ok": "COMPLETED",
    "crashed": "FAILED OUT_OF_MEMORY",
    "timeout": "TIMEOUT",
    "lost": "BOOT_FAIL CANCELLED DEADLINE LAUNCH_FAILED NODE_FAIL PREEMPTED RECONFIG_FAIL REVOKED",
}
VERDICTS = {state: verdict for verdict, states in _STATES.items() for state in states.split()}
"""Maps a job's state to ``WAITING``, ``RUNNING``, or the status of a launch whose job ended in this state."""

_ENDING = ("COMPLETING", "STAGE_OUT")  # States of a job whose processes are ending or have ended.

_TRANSIENT = (
    *("unable to contact slurm", "socket timed out", "connection refused", "connection timed out"),
    *("connection reset", "temporarily unable to accept", "resource temporarily unavailable"),
    *("zero bytes were transmitted", "transport endpoint is not connected", "system call failed", "munge"),
    *("communication connection failure", "slurm backup controller in standby"),
    "unexpected message received",
)
"""Parts of error messages which mean that the same command may succeed later."""

_HOPELESS = ("ReqNodeNotAvail", "Nodes_required_for_job_are_DOWN", "BadConstraints", "NodeDown")
"""Beginnings of Slurm's reasons why a job waits, if it waits for nodes that may never become available."""

NEVER = "allocation failure: "
"""Text in the output of ``sbatch --test-only`` that precedes the reason why a job can never start."""
NOT_NOW = ("are busy", "down, drained or reserved")
"""Parts of a reason after ``NEVER`` which mean that the nodes may be available later."""

STARTING = ("idle", "alloc", "mix", "comp", "resv", "plnd", "planned", "maint")
"""States of a node on which a job can start, now or when other jobs have ended."""

TIME = re.compile(r"\d+|\d+:\d\d|\d+:\d\d:\d\d|\d+-\d+(:\d\d){0,2}|UNLIMITED", re.IGNORECASE)
"""Pattern of a time limit: minutes, M:SS, H:MM:SS, D-H, D-H:MM, D-H:MM:SS."""


@dataclass(frozen=True, slots=True)
class Job:
    """Describe a job with fields of the output of ``scontrol show job``."""

    id: str  # Number of the job.
    state: str  # State of the job in Slurm's word, such as ``PENDING``.
    reason: str = ""  # Why the job waits or ended, in Slurm's word; empty: no reason.
    nodelist: str = ""  # The nodes of the job, in Slurm's short form.
    submitted_s: float | None = None  # Time of the submission, in seconds since the epoch.
    started_s: float | None = None  # Time of the start, or when Slurm expects it, in seconds since the epoch.
    ends_s: float | None = None
    """Time at which the job ended, or will end at the latest, in seconds since the epoch; None: it has no
    limit, or the time is not known."""

    @property
    def verdict(self) -> str:
        """Return ``WAITING``, ``RUNNING``, or the status of a launch whose job ended in this state."""
        return VERDICTS.get(self.state, "lost")

    @property
    def is_over(self) -> bool:
        """Whether nothing can be launched in the job any more, since it has ended or is ending."""
        return self.verdict != RUNNING or self.state in _ENDING

    @property
    def waits_in_vain(self) -> bool:
        """Whether the job waits for nodes that may never become available."""
        return self.verdict == WAITING and self.reason.startswith(_HOPELESS)

    @property
    def queue_s(self) -> float:
        """Return the time from submission to start, in seconds."""
        if self.submitted_s is None or self.started_s is None:
            return 0.0
        return max(0.0, self.started_s - self.submitted_s)

    def in_words(self) -> str:
        """Return the state and its reason as a text for users."""
        return f"job {self.id} is {self.state}" + (f" ({self.reason})" if self.reason else "")


def job_of(text: str) -> Job | None:
    """Return the job that the output of ``scontrol show job -o`` describes; None if it describes none."""
    pairs = (word.split("=", 1) for word in reversed(text.split()) if "=" in word)
    fields = dict(pairs)  # if a key occurs more than once, its first value counts
    if "JobId" not in fields or "JobState" not in fields:
        return None
    return Job(
        id=fields["JobId"],
        state=fields["JobState"],
        reason=_value_or_empty(fields.get("Reason")),
        nodelist=_value_or_empty(fields.get("NodeList")),
        submitted_s=_epoch_s(fields.get("SubmitTime")),
        started_s=_epoch_s(fields.get("StartTime")),
        ends_s=_epoch_s(fields.get("EndTime")),
    )


def is_transient(message: str) -> bool:
    """Whether an error message means that Slurm is busy or does not answer, not that a request was wrong."""
    lower = message.lower()
    return any(part in lower for part in _TRANSIENT)


def _value_or_empty(value: str | None) -> str:
    return "" if value in (None, "None", "(null)", "N/A") else str(value)


def _epoch_s(value: str | None) -> float | None:
    """Convert a local time that Slurm prints to seconds since the epoch; None if the text is no time."""
    try:
        return datetime.fromisoformat(value or "").timestamp()
    except ValueError:  # "Unknown", "N/A"
        return None
