"""``record`` without room for its files, or told to end: the program is not harmed, nothing is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autotune.errors import ExitCode
from tests.integration.mpirun import CROWDED, ROOT, launcher

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(600)]

PROGRAM = """
import sys, time
from pathlib import Path
from mpi4py import MPI
world, place = MPI.COMM_WORLD, Path(sys.argv[1])
while not world.bcast((place / "enough").exists(), root=0):
    for size in (8, 1024, 65536):
        world.Allreduce(MPI.IN_PLACE, [bytearray(size), MPI.INT])
    if world.rank == 0 and not (place / "round").exists():
        (place / "round").touch()
if world.rank == 0:
    print("the program ended well", flush=True)
"""


class Recorded:
    """A recording under way, of a program that goes on until it is told that it is enough."""

    def __init__(self, place: Path, out: Path, *before: str) -> None:
        self.place, self.out = place, out
        (place / "program.py").write_text(PROGRAM)
        mpirun = [launcher(), "-n", "2", *CROWDED]
        program = [sys.executable, str(place / "program.py"), str(place)]
        record = [sys.executable, "-m", "autotune", "record", "--out", str(out), "--", *mpirun, *program]
        self.process = subprocess.Popen(
            [*before, *record],
            env={**os.environ, **ROOT},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.round()

    def round(self) -> None:
        """Wait until the program has made all its calls once more; the test's own limit ends it."""
        (self.place / "round").unlink(missing_ok=True)
        while not (self.place / "round").exists() and self.process.poll() is None:
            time.sleep(0.02)

    def ended(self) -> tuple[int, str]:
        """Let the program end, if it goes on; exit code and all that was printed."""
        said, _ = self.process.communicate()
        return self.process.returncode, said

    def enough(self) -> tuple[int, str]:
        """Let the program end by itself."""
        (self.place / "enough").touch()
        return self.ended()


def calls(out: Path) -> set[float]:
    """Message sizes of the allreduces in a recording."""
    return {
        c["message_bytes"] for c in json.loads(out.read_text())["calls"] if c["collective"] == "allreduce"
    }


def test_a_full_disk_does_not_harm_the_program(tmp_path):
    """On a file system of 600 KiB, in a mount namespace of its own."""
    if subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("nobody may mount here")
    small = tmp_path / "small"
    small.mkdir()
    mounted = f'mount -t tmpfs -o size=600k none {small} && exec "$@"'
    code, said = Recorded(tmp_path, small / "calls.json", "unshare", "-m", "sh", "-c", mounted, "sh").enough()
    assert "the program ended well" in said
    assert "No space left on device" in said
    assert "which ended with exit code 0: no room for its ranks" in said
    assert code == ExitCode.LOCKED


def test_a_file_that_is_cut_off_under_way_does_not_harm_the_program(tmp_path):
    """As a failing disk: the next page that is written is a bus error."""
    running = Recorded(tmp_path, tmp_path / "calls.json")
    for path in tmp_path.glob(".calls.json.*/*/*.rank"):
        os.truncate(path, 0)
    for _ in range(2):  # the first one may have been under way
        running.round()
    code, said = running.enough()
    assert "the program ended well" in said
    assert "it is recorded no more" in said
    assert code == ExitCode.LOCKED


@pytest.mark.parametrize(
    ("number", "times"), [(signal.SIGTERM, 1), (signal.SIGTERM, 2), (signal.SIGXCPU, 1), (signal.SIGINT, 2)]
)
def test_what_was_recorded_until_a_limit_is_kept(number, times, tmp_path):
    """Twice at once is what ``timeout`` sends, and batch systems that signal a process and its group."""
    running = Recorded(tmp_path, tmp_path / "calls.json")
    for _ in range(times):
        running.process.send_signal(number)
    code, said = running.ended()
    assert code == ExitCode.INTERRUPTED, said
    assert calls(running.out) == {8.0, 1024.0, 65536.0}


def test_a_signal_to_the_whole_group_keeps_it_too(tmp_path):
    running = Recorded(tmp_path, tmp_path / "calls.json")
    os.killpg(running.process.pid, signal.SIGTERM)
    _, said = running.ended()
    assert calls(running.out) == {8.0, 1024.0, 65536.0}, said


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_a_warning_before_a_limit_goes_to_the_application(number, tmp_path):
    running = Recorded(tmp_path, tmp_path / "calls.json")
    running.process.send_signal(number)
    code, said = running.ended()  # it heeds none, so that it ends
    assert code == 128 + number, said
    assert calls(running.out) == {8.0, 1024.0, 65536.0}
