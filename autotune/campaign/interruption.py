"""The wish that a campaign ends: kept by a signal's handler, looked at where nothing is lost (any step).

An exception that a handler raises can fall into a destructor or a callback of some library, where it is
swallowed, and the campaign would run on. So handlers only keep the wish, and wake up who waits.
"""

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from types import FrameType

from autotune.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end the work; one that our parent ignores, as ``nohup`` does, we ignore too."""

_wishes: list[int] = []
_pipes: list[int] = []


@contextlib.contextmanager
def heeded(*more: signal.Signals) -> Iterator[None]:
    """While this lasts signals, and ``more`` of them, are wishes; the second ends the work wherever it is.

    Raises:
        Interrupted: there was a wish, at the latest at the end.
    """
    awake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    wishing = {number: signal.getsignal(number) for number in (*SIGNALS, *more)}
    # None is a handler of somebody who is no Python, which could not be put back: it stays.
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
        if not _pipes:  # the outermost ends, and with it what was wished
            _wishes.clear()
    if wished:
        raise Interrupted("interrupted")


def check() -> None:
    """Look whether the work is to end.

    Raises:
        Interrupted: it is.
    """
    if _wishes:
        raise Interrupted("interrupted")
    for pipe in _pipes:
        with contextlib.suppress(BlockingIOError):
            os.read(pipe, 1 << 12)  # of signals that are no wishes


def alarm() -> int | None:
    """A descriptor that can be read when it is time for ``check``; None: no signal is a wish now."""
    return _pipes[-1] if _pipes else None


def pause(seconds: float) -> None:
    """Sleep so long, or until there is a wish.

    Raises:
        Interrupted: there is.
    """
    select.select(list(_pipes), (), (), seconds)
    check()


def _wish(number: int, frame: FrameType | None) -> None:
    _wishes.append(number)
    if len(_wishes) > 1:
        raise KeyboardInterrupt
