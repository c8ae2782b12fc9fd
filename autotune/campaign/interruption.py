"""Remember the request to end a campaign, and act on it at a moment when nothing is lost.

An exception that a signal handler raises can occur inside a destructor or a callback of some library, which
swallows the exception, so that the campaign would run on. So handlers only record the request, and wake up
code that waits.
"""

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from types import FrameType

from autotune.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end the work, unless the parent process ignored them, as ``nohup`` does."""

_wishes: list[int] = []
_pipes: list[int] = []


@contextlib.contextmanager
def heeded(*signals: signal.Signals) -> Iterator[None]:
    """Treat signals as requests to end while the context lasts; a second signal ends the work at once.

    Args:
        signals: Signals to treat in this way besides ``SIGNALS``.

    Raises:
        Interrupted: a request arrived; the error is raised at the end of the context at the latest.
    """
    awake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    wishing = {number: signal.getsignal(number) for number in (*SIGNALS, *signals)}
    # A handler that was not installed from Python is None; it is kept, since it could not be restored.
    former = {number: was for number, was in wishing.items() if was not in (signal.SIG_IGN, None)}
    _pipes.append(awake)
    previous = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in former:
        signal.signal(number, _wish)
    try:
        yield
    except KeyboardInterrupt as exc:
        raise Interrupted("interrupted") from exc
    finally:
        for number, was in former.items():
            signal.signal(number, was)
        signal.set_wakeup_fd(previous)
        _pipes.remove(awake)
        os.close(awake)
        os.close(wake)
        wished = bool(_wishes)
        if not _pipes:  # at the end of the outermost context requests are forgotten
            _wishes.clear()
    if wished:
        raise Interrupted("interrupted")


def check() -> None:
    """Raise an error if a request to end the work has arrived.

    Raises:
        Interrupted: such a request has arrived.
    """
    if _wishes:
        raise Interrupted("interrupted")
    for pipe in _pipes:
        with contextlib.suppress(BlockingIOError):
            os.read(pipe, 1 << 12)  # drain wake-ups by signals that do not ask for an end


def alarm() -> int | None:
    """Return a file descriptor that becomes readable when a signal arrives, the moment to call ``check``.

    Return None outside of ``heeded``, where signals are not handled.
    """
    return _pipes[-1] if _pipes else None


def pause(seconds: float) -> None:
    """Sleep for some seconds, or until there is a request to end the work.

    Raises:
        Interrupted: such a request has arrived.
    """
    select.select(list(_pipes), (), (), seconds)
    check()


def _wish(number: int, frame: FrameType | None) -> None:
    _wishes.append(number)
    if len(_wishes) > 1:
        raise KeyboardInterrupt
