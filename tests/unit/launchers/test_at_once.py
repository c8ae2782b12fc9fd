"""Commands that run at once: each ends by itself, and with the driver all of them."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.stacks.ports import LaunchRequest, Placement
from hydra_plugins.autotune._mpirun import _STALE, run_here
from hydra_plugins.autotune._processes import Command, run_at_once
from tests.unit.launchers.test_processes import TELLS, gone, until

WAITS = """
import sys, time
from pathlib import Path
here = Path(sys.argv[1])
(here / "begun").write_text("")
while not Path(sys.argv[2]).exists():
    time.sleep(0.01)
print("well")
"""


def command(folder: Path, code: str, *words: str, timeout_s: float = 120.0, **more) -> Command:
    folder.mkdir(parents=True)
    argv = [sys.executable, "-c", code, str(folder), *words]
    return Command(argv, {}, folder / "out", folder / "err", timeout_s, **more)


def test_they_run_at_once(tmp_path):
    """Each waits for what the other makes."""
    one, other = tmp_path / "launches/1", tmp_path / "launches/2"
    both = [command(one, WAITS, str(other / "begun")), command(other, WAITS, str(one / "begun"))]
    ended = run_at_once(both)
    assert [each.exit_code for each in ended] == [0, 0]
    assert [(folder / "out").read_text() for folder in (one, other)] == ["well\n"] * 2


def test_one_that_fails_or_hangs_ends_no_other(tmp_path):
    """The last one goes on until both are over."""
    over, ends, launches = tmp_path / "over", [], tmp_path / "launches"
    fails, hangs = "import sys; sys.exit('no such device')", "import time; time.sleep(600)"

    def noted(ended):
        ends.append(ended.exit_code)
        if len(ends) == 2:
            over.touch()
        return False

    ended = run_at_once([
        command(launches / "1", fails, should_repeat=noted),
        command(launches / "2", hangs, timeout_s=0.5, should_repeat=noted),
        command(launches / "3", WAITS, str(over)),
    ])  # fmt: skip
    assert [each.exit_code for each in ended] == [1, None, 0]
    assert (tmp_path / "launches/1/err").read_text() == "no such device\n"


def test_where_one_cannot_be_started_none_of_the_others_is_left(tmp_path):
    pid = tmp_path / "pid"
    code = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    first = command(tmp_path / "launches/1", code)
    (tmp_path / "launches/2").mkdir()
    none = Command(["/no/such/mpirun"], {}, tmp_path / "launches/2/out", tmp_path / "launches/2/err", 9.0)
    with pytest.raises(OSError, match="No such file") as caught:
        run_at_once([first, none])
    assert caught.value.filename == "/no/such/mpirun"
    assert not pid.exists() or gone(int(pid.read_text()))


def test_one_is_run_once_more_while_the_others_go_on(tmp_path):
    """As a launch of which a killed one left its directory; each notes its end, and once."""
    one, other = tmp_path / "launches/1", tmp_path / "launches/2"
    requests = []
    for folder in (one, other):
        folder.mkdir(parents=True)
        requests.append(LaunchRequest(folder, (), {}, Placement(2), 120.0, folder / "ended"))
    stale = f"""
        [ -e {one}/before ] && exit 3
        touch {one}/before
        echo "{_STALE}" >&2
        exit 1
    """
    waits = f"until [ -e {one}/ended ]; do sleep 0.02; done; exit 4"
    outcomes = run_here([(requests[0], ["sh", "-c", stale], {}), (requests[1], ["sh", "-c", waits], {})])
    assert [o.reason.split(":")[0] for o in outcomes] == ["exit code 3", "exit code 4"]
    assert (other / "ended").exists()


DRIVER = """
import sys
from pathlib import Path
from hydra_plugins.autotune import _processes
folder = Path(sys.argv[1])
commands = []
for number in range(3):
    place = folder / "launches" / str(number)
    place.mkdir(parents=True)
    words = ["sh", "-c", sys.argv[2].format(path=place / "pid") + "; exec sleep 600"]
    commands.append(_processes.Command(words, {}, place / "out", place / "err", 600.0))
_processes.run_at_once(commands)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_with_the_driver_all_of_them_end(tmp_path, number):
    words = [sys.executable, "-c", DRIVER, str(tmp_path), TELLS]
    driver = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        pids = [tmp_path / f"launches/{n}/pid" for n in range(3)]
        for path in pids:
            until(path, driver)
        driver.send_signal(number)
        driver.wait()
    finally:
        driver.kill()
        driver.wait()
    assert all(gone(int(path.read_text())) for path in pids)
