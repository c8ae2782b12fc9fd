"""A process group from start to end: exit codes, timeouts, and nobody left behind."""

import contextlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from hydra_plugins.autotune._processes import MARKER, run

SLEEPY = "import time; time.sleep(60)"
DAEMON = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
open({path!r}, "w").write(str(child.pid))
time.sleep({stay})
"""


def start(tmp_path, code, timeout_s=30.0, env=None):
    words = [sys.executable, "-c", code]
    return run(words, env or {}, tmp_path / "out", tmp_path / "err", timeout_s)


def gone(pid):
    for _ in range(100):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
            time.sleep(0.05)
            continue
        return True
    return False


def test_output_exit_code_and_environment(tmp_path):
    code = "import os, sys; print(os.environ['ASKED']); sys.stderr.write('oh'); sys.exit(7)"
    ended = start(tmp_path, code, env={"ASKED": "a b $(c)"})
    assert ended.exit_code == 7
    assert ended.duration_s > 0
    assert (tmp_path / "out").read_text() == "a b $(c)\n"
    assert (tmp_path / "err").read_text() == "oh"


def test_a_timeout_ends_the_command(tmp_path):
    ended = start(tmp_path, SLEEPY, timeout_s=0.3)
    assert ended.exit_code is None


@pytest.mark.parametrize("stay", [0.0, 60.0])
def test_a_daemon_that_left_the_group_is_ended_too(tmp_path, stay):
    path = tmp_path / "pid"
    start(tmp_path, DAEMON.format(path=str(path), stay=stay), timeout_s=2.0)
    assert gone(int(path.read_text()))


def test_a_command_that_ignores_sigterm_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("hydra_plugins.autotune._processes._GRACE_S", 0.2)
    code = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPY}"
    assert start(tmp_path, code, timeout_s=1.0).exit_code is None


def test_ctrl_c_ends_the_command_first_and_is_passed_on(tmp_path):
    path = tmp_path / "pid"
    code = f"import os, time; open({str(path)!r}, 'w').write(str(os.getpid())); time.sleep(60)"

    def interrupt():
        while not path.exists() or not path.read_text():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        start(tmp_path, code)
    thread.join()
    assert gone(int(path.read_text()))


def test_a_command_that_does_not_exist(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        run([str(tmp_path / "nothing")], {}, tmp_path / "out", tmp_path / "err", 1.0)


def test_nothing_of_other_launches_is_touched(tmp_path):
    import subprocess

    other = subprocess.Popen([sys.executable, "-c", SLEEPY], env={**os.environ, MARKER: "another"})
    try:
        start(tmp_path, "pass")
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
