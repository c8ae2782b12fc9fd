"""Slurm's words: states and reasons of jobs, states of nodes, messages, notations; text in, values out."""

import re
from dataclasses import dataclass
from datetime import datetime

WAITING = "waiting"
RUNNING = "running"  # What becomes of a job that has not ended.

_STATES = {
    WAITING: "PENDING CONFIGURING REQUEUED REQUEUE_FED REQUEUE_HOLD SPECIAL_EXIT RESV_DEL_HOLD",
    RUNNING: "RUNNING COMPLETING RESIZING SIGNALING STAGE_OUT STOPPED SUSPENDED",
    "ok": "COMPLETED",
    "crashed": "FAILED OUT_OF_MEMORY",
    "timeout": "TIMEOUT",
    "lost": "BOOT_FAIL CANCELLED DEADLINE LAUNCH_FAILED NODE_FAIL PREEMPTED RECONFIG_FAIL REVOKED",
}
VERDICTS = {state: verdict for verdict, states in _STATES.items() for state in states.split()}
"""State of a job → ``WAITING``, ``RUNNING``, or the status of a launch whose job ended in it."""

_ENDING = ("COMPLETING", "STAGE_OUT")  # Its processes are being ended, or have been.

_TRANSIENT = (
    "unable to contact slurm",
    "socket timed out",
    "connection refused",
    "connection timed out",
    "connection reset",
    "temporarily unable to accept",
    "resource temporarily unavailable",
    "zero bytes were transmitted",
    "transport endpoint is not connected",
    "communication connection failure",
    "slurm backup controller in standby",
    "unexpected message received",
    "system call failed",
    "munge",
)
"""Parts of messages that say that asking again later makes sense."""

_HOPELESS = ("ReqNodeNotAvail", "Nodes_required_for_job_are_DOWN", "BadConstraints", "NodeDown")
"""Beginnings of the reasons of a job that waits for nodes which may never come."""

NEVER = "allocation failure: "  # Of ``sbatch --test-only``, before the reason why a job can never start.
NOT_NOW = ("are busy", "down, drained or reserved")  # In such a reason: nodes that may be back later.

STARTING = ("idle", "alloc", "mix", "comp", "resv", "plnd", "planned", "maint")
"""States of a node on which a job can start, now or when others have ended."""

TIME = re.compile(r"\d+|\d+:\d\d|\d+:\d\d:\d\d|\d+-\d+(:\d\d){0,2}|UNLIMITED", re.IGNORECASE)
"""A limit of time: minutes, M:SS, H:MM:SS, D-H, D-H:MM, D-H:MM:SS."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job as ``scontrol show job`` describes it."""

    id: str  # Its number.
    state: str  # Slurm's word, such as ``PENDING``.
    reason: str = ""  # Why it waits or ended, in Slurm's word; empty: no reason.
    nodelist: str = ""  # The nodes it got, in Slurm's short form.
    submitted_s: float | None = None  # Seconds since the epoch.
    started_s: float | None = None
    """Seconds since the epoch; of a job that waits: when Slurm expects it to start."""
    ends_s: float | None = None  # When it ended, or will at the latest; None: no limit, or not known.

    @property
    def verdict(self) -> str:
        """``WAITING``, ``RUNNING``, or the status of a launch whose job ended in this state."""
        return VERDICTS.get(self.state, "lost")

    @property
    def is_over(self) -> bool:
        """Whether nothing can be launched in it any more; ``COMPLETING`` hides how it ended."""
        return self.verdict != RUNNING or self.state in _ENDING

    @property
    def waits_in_vain(self) -> bool:
        """Whether it waits for nodes that may never come."""
        return self.verdict == WAITING and self.reason.startswith(_HOPELESS)

    @property
    def queue_s(self) -> float:
        """Time from submission to start."""
        if self.submitted_s is None or self.started_s is None:
            return 0.0
        return max(0.0, self.started_s - self.submitted_s)

    def in_words(self) -> str:
        """State and reason, for a human."""
        return f"job {self.id} is {self.state}" + (f" ({self.reason})" if self.reason else "")


def job_of(text: str) -> Job | None:
    """The job in the output of ``scontrol show job -o``; None when there is none in it."""
    fields: dict[str, str] = {}
    for word in text.split():
        key, equals, value = word.partition("=")
        if equals:
            fields.setdefault(key, value)
    if "JobId" not in fields or "JobState" not in fields:
        return None
    return Job(
        id=fields["JobId"],
        state=fields["JobState"],
        reason=_given(fields.get("Reason")),
        nodelist=_given(fields.get("NodeList")),
        submitted_s=_epoch_s(fields.get("SubmitTime")),
        started_s=_epoch_s(fields.get("StartTime")),
        ends_s=_epoch_s(fields.get("EndTime")),
    )


def is_transient(message: str) -> bool:
    """Whether a message of Slurm says that it is busy or away, rather than that we asked something wrong."""
    lower = message.lower()
    return any(part in lower for part in _TRANSIENT)


def _given(value: str | None) -> str:
    return "" if value in (None, "None", "(null)", "N/A") else str(value)


def _epoch_s(value: str | None) -> float | None:
    """Slurm writes local time without a zone."""
    try:
        return datetime.fromisoformat(value or "").timestamp()
    except ValueError:  # "Unknown", "N/A"
        return None
