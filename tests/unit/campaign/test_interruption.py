"""Signals end the work where nothing is lost, and none of them is."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from autotune.campaign.interruption import SIGNALS, alarm, check, heeded, pause
from autotune.errors import Interrupted
from hydra_plugins.autotune._processes import run

EACH = pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)


@pytest.fixture(autouse=True)
def _heard():
    """Who runs the tests under ``nohup``, or in the background of a shell, has us ignore signals."""
    before = [(number, signal.getsignal(number)) for number in SIGNALS]
    for number, was in before:
        if was is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    yield
    for number, was in before:
        signal.signal(number, was)


@EACH
def test_a_signal_in_a_destructor_is_not_lost(number):
    class Hit:
        def __del__(self):
            os.kill(os.getpid(), number)

    with pytest.raises(Interrupted), heeded():
        hit = Hit()
        del hit  # an exception would end here
        with pytest.raises(Interrupted):
            check()
        pause(60)


@EACH
def test_a_signal_that_nobody_looked_at_is_told_at_the_end(number):
    with pytest.raises(Interrupted), heeded():
        os.kill(os.getpid(), number)


def test_a_wish_ends_with_the_work_that_it_was_for_and_with_no_part_of_it():
    with pytest.raises(Interrupted), heeded():
        os.kill(os.getpid(), signal.SIGTERM)
    check()
    with pytest.raises(Interrupted), heeded():
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Interrupted), heeded():
            pass
        with pytest.raises(Interrupted):
            check()


@EACH
def test_a_launch_that_runs_is_ended_at_once_with_all_its_processes(number, tmp_path):
    path = tmp_path / "pid"
    code = f"import os, time; open({str(path)!r}, 'w').write(str(os.getpid())); time.sleep(60)"

    def interrupt():
        while not path.exists() or not path.read_text():
            time.sleep(0.02)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(Interrupted), heeded():
        run([sys.executable, "-c", code], {}, tmp_path / "out", tmp_path / "err", 60.0)
    thread.join()
    with pytest.raises(ProcessLookupError):
        os.kill(int(path.read_text()), 0)


def test_the_second_one_ends_the_work_wherever_it_is():
    with pytest.raises(Interrupted), heeded():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("not reached")


def test_what_our_parent_ignores_we_ignore():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with heeded():
            os.kill(os.getpid(), signal.SIGHUP)
            check()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_signals_wake_nobody_for_ever_and_handlers_are_as_they_were():
    before = [signal.getsignal(number) for number in SIGNALS]
    heard = []
    other = signal.signal(signal.SIGUSR1, lambda *_: heard.append("USR1"))
    try:
        with heeded():
            os.kill(os.getpid(), signal.SIGUSR1)
            check()
            with pytest.raises(BlockingIOError):
                os.read(alarm(), 1)
    finally:
        signal.signal(signal.SIGUSR1, other)
    assert heard == ["USR1"]
    assert alarm() is None
    assert [signal.getsignal(number) for number in SIGNALS] == before


CAMPAIGN = ("conf=allreduce_8node", "hydra/launcher=simulated", "campaign.dir=here", "verify.enabled=false")


def test_a_campaign_whose_terminal_is_closed_ends_resumable(tmp_path):
    command = [sys.executable, "-m", "autotune", *CAMPAIGN, "proposer=random", "budget.launches=2000"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        journal = tmp_path / "here/journal.jsonl"
        while not journal.exists() or journal.read_bytes().count(b'{"event":"observation"') < 3:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGHUP)
        try:
            _, said = process.communicate(timeout=200)
        finally:
            process.kill()
    assert process.returncode == 130
    assert b"the same command continues" in said
    assert b"Traceback" not in said
    assert b'"state":"interrupted"' in journal.read_bytes().splitlines()[-1]
