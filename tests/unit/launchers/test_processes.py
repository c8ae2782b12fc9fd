"""A process group from start to end: exit codes, timeouts, and nobody left behind."""

import contextlib
import mmap
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest

from autotune.errors import StorageError
from hydra_plugins.autotune import _guard
from hydra_plugins.autotune._guard import MARKER, SEGMENTS, SHARED
from hydra_plugins.autotune._processes import KEPT_BYTES, run

SLEEPY = "import time; time.sleep(600)"
DAEMON = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
with open({path!r} + ".part", "w") as file:
    file.write(str(child.pid))
os.rename({path!r} + ".part", {path!r})
time.sleep({stay})
"""


PATIENCE_S = (0.5, 2.0, 8.0, 32.0, 128.0)
"""One after the other, of launches that have to begin before they are ended: a busy machine is late."""
TELLS = "echo $$ > {path}.part; mv {path}.part {path}"  # its pid, in a shell


def start(tmp_path, code, timeout_s=120.0, env=None):
    words = [sys.executable, "-c", code]
    return run(words, env or {}, tmp_path / "out", tmp_path / "err", timeout_s)


def gone(pid):
    for _ in range(1200):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
            time.sleep(0.05)
            continue
        return True
    return False


def until(path, driver):
    """Wait until what a driver runs has made a file."""
    while not path.exists():
        assert driver.poll() is None
        time.sleep(0.02)


def test_output_exit_code_and_environment(tmp_path):
    code = "import os, sys; print(os.environ['ASKED']); sys.stderr.write('oh'); sys.exit(7)"
    ended = start(tmp_path, code, env={"ASKED": "a b $(c)"})
    assert ended.exit_code == 7
    assert ended.duration_s > 0
    assert (tmp_path / "out").read_text() == "a b $(c)\n"
    assert (tmp_path / "err").read_text() == "oh"


def test_what_crashes_leaves_no_core_dump(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    allowed = (limits[1], limits[1])  # where an administrator forbids dumps, there is nothing to forbid
    resource.setrlimit(resource.RLIMIT_CORE, allowed)
    try:
        code = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE)[0])"
        assert start(tmp_path, code).exit_code == 0
        assert resource.getrlimit(resource.RLIMIT_CORE) == allowed  # the driver's own are its user's affair
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, limits)
    assert (tmp_path / "out").read_text() == "0\n"


@pytest.mark.parametrize("ignores", ["", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "])
def test_a_timeout_ends_the_command_also_one_that_ignores_sigterm(tmp_path, monkeypatch, ignores):
    monkeypatch.setattr("hydra_plugins.autotune._processes._GRACE_S", 0.2)
    assert start(tmp_path, ignores + SLEEPY, timeout_s=1.0).exit_code is None


@pytest.mark.parametrize("stay", [0.0, 600.0])
def test_a_daemon_that_left_the_group_is_ended_too(tmp_path, monkeypatch, stay):
    monkeypatch.setattr("hydra_plugins.autotune._processes._GRACE_S", 0.2)
    path = tmp_path / "pid"
    for timeout_s in PATIENCE_S if stay else [120.0]:
        start(tmp_path, DAEMON.format(path=str(path), stay=stay), timeout_s)
        if path.exists():
            break
    assert gone(int(path.read_text()))


ESCAPES = {
    "without environment": "{tell}; exec sleep 600",
    "twice removed": "setsid sh -c '{tell}; exec sleep 600' & exit",
    "deaf": "trap '' TERM HUP; {tell}; sleep 600 & wait; sleep 600",
    "without a word to anybody": "exec 0<&- 1<&- 2<&-; {tell}; exec sleep 600",
}
"""Ways in which a daemon leaves group, session, parent and environment."""
ESCAPING = """
import os, subprocess, sys, time
subprocess.Popen({words!r})
while not os.path.exists({path!r}):
    time.sleep(0.02)
{end}
"""


def escaping(path, way, end=""):
    """A program that starts such a daemon, which leaves its pid in a file, and then ends in some way."""
    words = ["setsid", "env", "-i", "sh", "-c", ESCAPES[way].format(tell=TELLS.format(path=path))]
    return ESCAPING.format(words=words, path=str(path), end=end)


def test_a_launch_that_stops_its_parent_is_ended_with_its_daemons(tmp_path):
    told = tmp_path / "pid"
    daemon = f"setsid env -i sh -c '{TELLS.format(path=told)}; exec sleep 600'"
    words = ["sh", "-c", f"{daemon} & kill -STOP $PPID; wait"]
    for patience_s in PATIENCE_S:
        ended = run(words, {}, tmp_path / "out", tmp_path / "err", patience_s)
        assert ended.exit_code is None
        if told.exists():
            break
    assert gone(int(told.read_text()))


@pytest.mark.parametrize("end", ["", "os.abort()", "time.sleep(600)"], ids=["well", "crashed", "hung"])
@pytest.mark.parametrize("way", ESCAPES)
def test_a_daemon_that_cleared_its_environment_is_ended_too(tmp_path, monkeypatch, way, end):
    monkeypatch.setattr("hydra_plugins.autotune._processes._GRACE_S", 0.2)
    path = tmp_path / "pid"
    for timeout_s in PATIENCE_S if "sleep" in end else [120.0]:
        start(tmp_path, escaping(path, way, end), timeout_s)
        if path.exists():
            break
    assert gone(int(path.read_text()))


@pytest.mark.parametrize("killed", ["driver", "driver and guard"])
def test_it_is_ended_too_after_whoever_started_it_was_killed(tmp_path, killed):
    launch, path = tmp_path / "launches" / "0001", tmp_path / "pid"
    launch.mkdir(parents=True)
    code = escaping(path, "without environment", "time.sleep(600)")
    driver = driving(launch, code)
    until(path, driver)
    if killed != "driver":
        for pid in children_of(driver.pid):
            if _guard.LAUNCH not in Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
                os.kill(pid, signal.SIGKILL)
    driver.kill()
    driver.wait()
    if killed != "driver":
        start(launch, "pass")  # the next launch of the same campaign
    assert gone(int(path.read_text()))


def children_of(parent):
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                    yield int(folder.name)


def test_nothing_that_others_started_is_taken_for_a_launch_s(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    other = subprocess.Popen([sys.executable, "-c", escaping(theirs, "without environment")])
    try:
        start(tmp_path, escaping(ours, "without environment"))
        other.wait()
        start(tmp_path, "pass")
        assert gone(int(ours.read_text()))
        os.kill(int(theirs.read_text()), 0)
    finally:
        os.kill(int(theirs.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGABRT])
def test_what_ended_a_command_is_told_as_it_was(tmp_path, number):
    assert start(tmp_path, f"import os; os.kill(os.getpid(), {int(number)})").exit_code == -number
    assert start(tmp_path, f"import sys; sys.exit({128 + number})").exit_code == 128 + number


def test_what_is_missing_or_no_program_cannot_be_started(tmp_path):
    for mode, said in ((None, "No such file"), (0o600, "Permission denied"), (0o700, "Exec format error")):
        if mode:
            (tmp_path / "program").write_text("no program")
            (tmp_path / "program").chmod(mode)
        with pytest.raises(OSError, match=said):
            run([str(tmp_path / "program")], {}, tmp_path / "out", tmp_path / "err", 1.0)


def test_ctrl_c_ends_the_command_first_and_is_passed_on(tmp_path):
    path = tmp_path / "pid"
    code = f"import os, time; open({str(path)!r}, 'w').write(str(os.getpid())); time.sleep(600)"

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


def test_of_endless_output_the_beginning_and_the_end_are_kept(tmp_path):
    code = (
        "import sys; sys.stdout.write('begin\\n')\n"
        "for _ in range(256): sys.stdout.write('x' * (1 << 20))\n"
        "sys.stdout.write('\\nend'); sys.exit(3)"
    )
    driver = (
        "import resource, sys; from pathlib import Path; from hydra_plugins.autotune._processes import run\n"
        "folder, code = Path(sys.argv[1]), sys.argv[2]\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "ended = run([sys.executable, '-c', code], {}, folder / 'out', folder / 'err', 60.0)\n"
        "print(ended.exit_code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", driver, str(tmp_path), code], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    exit_code, grown_kib = map(int, done.stdout.split())
    assert exit_code == 3
    assert grown_kib < 64 << 10
    kept = (tmp_path / "out").read_bytes()
    assert kept.startswith(b"begin\nx")
    assert kept.endswith(b"x\nend")
    assert 2 * KEPT_BYTES <= len(kept) < 2 * KEPT_BYTES + (1 << 17)
    assert b"left " in kept[KEPT_BYTES : KEPT_BYTES + 100]


def test_what_it_said_before_its_timeout_is_kept(tmp_path):
    for timeout_s in PATIENCE_S:
        start(tmp_path, f"print('alive', flush=True); {SLEEPY}", timeout_s)
        if said := (tmp_path / "out").read_text():
            break
    assert said == "alive\n"


STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])  # ignores it likewise
with open({path!r} + ".part", "w") as file:
    file.write(f"{{os.getpid()}} {{child.pid}}")
os.rename({path!r} + ".part", {path!r})
time.sleep(600)
"""
DRIVER = """
import sys
from pathlib import Path
from hydra_plugins.autotune import _processes
folder = Path(sys.argv[1])
_processes._GRACE_S = float(sys.argv[3])
_processes.run([sys.executable, "-c", sys.argv[2]], {}, folder / "out", folder / "err", 60.0)
"""


def driving(folder, code, grace_s=0.2):
    """A process that runs such a program."""
    words = [sys.executable, "-c", DRIVER, str(folder), code, str(grace_s)]
    return subprocess.Popen(words, stderr=subprocess.DEVNULL)


def stubborn(tmp_path, grace_s=0.2):
    """A driver, and the pids of its program and the program's child, which both ignore SIGTERM."""
    path = tmp_path / "pids"
    driver = driving(tmp_path, STUBBORN.format(path=str(path)), grace_s)
    until(path, driver)
    return driver, [int(pid) for pid in path.read_text().split()]


def test_nothing_outlives_a_driver_that_is_killed(tmp_path):
    driver, pids = stubborn(tmp_path)
    driver.kill()
    driver.wait()
    assert all(gone(pid) for pid in pids)


def test_a_second_ctrl_c_ends_the_patience_not_the_work(tmp_path):
    driver, pids = stubborn(tmp_path, grace_s=60.0)
    driver.send_signal(signal.SIGINT)
    time.sleep(0.3)
    driver.send_signal(signal.SIGINT)
    assert driver.wait(60) != 0
    assert all(gone(pid) for pid in pids)


def test_what_an_earlier_driver_left_is_ended_first(tmp_path):
    launch, other = tmp_path / "launches" / "0007", tmp_path / "elsewhere" / "0001"
    launch.mkdir(parents=True)
    left, alien = (
        subprocess.Popen([sys.executable, "-c", SLEEPY], env={**os.environ, MARKER: f"{uuid}:{folder}:1"})
        for uuid, folder in (("earlier", launch.parent), ("another", other.parent))
    )
    try:
        start(launch, "pass")
        assert left.wait(60) == -signal.SIGKILL
        assert alien.poll() is None
    finally:
        for process in (left, alien):
            process.kill()
            process.wait()


def test_where_its_output_cannot_be_written_nothing_is_booked(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(StorageError, match="cannot be written"):
        start(tmp_path, "pass")


@pytest.fixture
def shared():
    """Files in shared memory as MPI libraries name them, gone afterwards."""
    made = []

    def name(prefix="sm_segment."):
        made.append(SHARED / f"{prefix}test.{uuid.uuid4().hex}")
        return made[-1]

    yield name
    for path in made:
        path.unlink(missing_ok=True)


LEAVES = """
import pathlib, time
pathlib.Path({path!r}).write_bytes(bytes(8))
{end}
"""


def aged(source, path, seconds):
    """A copy that has this time from its first moment: another test's launch may sweep at any."""
    made = path.with_name(f"made.{path.name}")
    made.write_bytes(source.read_bytes())
    os.utime(made, (seconds,) * 2)
    return made.rename(path)


@pytest.mark.parametrize("end", ["", "raise SystemExit(1)", "time.sleep(600)"])
def test_shared_memory_that_ranks_left_is_removed(tmp_path, shared, end):
    ours, before, foreign, used = shared(), shared("open_mpi."), shared("mine."), shared("mpich_shm_")
    foreign.write_bytes(bytes(8))
    aged(foreign, before, 1)
    with aged(foreign, used, time.time() + 60).open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 8)
    with mapped:  # by another job, which has begun in the meantime
        start(tmp_path, LEAVES.format(path=str(ours), end=end), 2.0 if "sleep" in end else 120.0)
    assert [path.exists() for path in (ours, before, foreign, used)] == [False, True, True, True]


def test_a_mapped_file_may_have_any_name(tmp_path):
    path = tmp_path / os.fsdecode(b"\xff \n")
    path.write_bytes(bytes(8))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ):
        assert str(path) in set(_guard._open_files())


@pytest.mark.parametrize("prefix", SEGMENTS)
def test_of_every_library_it_is_removed(tmp_path, shared, prefix):
    ours = shared(prefix)
    start(tmp_path, LEAVES.format(path=str(ours), end="raise SystemExit(1)"))
    assert not ours.exists()


HOLDS = """
import mmap, os, time
path, told = {path!r}, {told!r}
block = bytes(1 << 20)
with open(path, "wb") as file:
    for _ in range(64):
        file.write(block)
holds = [os.open(path, os.O_RDWR) for _ in range(512)]
maps = [mmap.mmap(one, 1 << 26) for one in holds[:64]]
for one in maps:
    one[:: 1 << 12] = one[:: 1 << 12]
open(told, "w").close()
time.sleep(600)
"""
"""It takes long to die: the kernel gives back its memory before it closes its files."""


VICTIMS = (
    *("driver", "parent", "launch", "guard driver", "driver guard", "guard parent", "parent driver"),
    *("driver parent", "launch parent driver"),
)
"""In this order at once; of driver, parent and guard one is left."""


@pytest.mark.parametrize("victims", VICTIMS)
def test_shared_memory_is_removed_whoever_is_killed(tmp_path, shared, victims):
    launch, told, ours = tmp_path / "launches" / "0001", tmp_path / "told", shared()
    launch.mkdir(parents=True)
    code = HOLDS.format(path=str(ours), told=str(told))
    driver = driving(launch, code)
    until(told, driver)
    pids = {"driver": driver.pid}
    for pid in children_of(driver.pid):
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        pids["parent" if _guard.LAUNCH in words else "guard"] = pid
    (pids["launch"],) = children_of(pids["parent"])
    for who in victims.split():
        with contextlib.suppress(ProcessLookupError):  # the parent of a killed launch ends by itself
            os.kill(pids[who], signal.SIGKILL)
        while who in ("launch", "parent") and environment_of(pids["launch"]):
            pass  # from then on it is dying: nothing tells whose it is, and its files are still open
    driver.wait()
    assert gone(pids["launch"])
    for _ in range(1200):
        if not ours.exists():
            break
        time.sleep(0.05)
    assert not ours.exists()


def environment_of(pid):
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def test_a_process_between_two_programs_is_looked_at_again(tmp_path):
    environ, words = tmp_path / "environ", tmp_path / "cmdline"
    (tmp_path / "stat").write_text("7 (a) b) R 1 7 7 0 -1 0 0")
    for path in (environ, words):
        path.touch()
    later = threading.Timer(0.1, environ.write_bytes, [b"A=b\0"])
    later.start()
    assert _guard._environment(tmp_path) == b"A=b\0"
    later.join()
    environ.write_bytes(b"")
    words.write_bytes(b"sleep\0")
    assert _guard._environment(tmp_path) == b"", "it has cleared it"


def test_a_node_is_swept_by_the_same_program(shared):
    ours, before = shared(), shared()
    ours.write_bytes(bytes(8))
    aged(Path(__file__), before, 1)
    subprocess.run([sys.executable, "-I", "-S", _guard.__file__, _guard.SWEEP, "60"], check=True)
    assert [path.exists() for path in (ours, before)] == [False, True]


@pytest.mark.parametrize("daemon", [False, True])
def test_the_directory_of_a_killed_mpirun_is_removed_and_no_other(daemon, tmp_path, monkeypatch):
    """Pids of containers and other nodes, with which it may share the place, are not to be seen from here."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before, elsewhere, other = (tmp_path / f"ompi.{name}" for name in ("4194305", "4194306", "cn1.0"))
    before.mkdir()
    os.utime(before, (1, 1))
    names = "(os.getpid(), 4194306, 'cn1.0')"
    made = f"import os; [os.makedirs(f'{tmp_path}/ompi.{{name}}/0') for name in {names}]"
    child = (
        f"if os.fork() == 0:\n {made}; os.write(tell, b'.')\n import time; time.sleep(60)\nos.read(told, 1)"
    )
    alone = f"{made}; os.kill(os.getpid(), 9)"
    start(tmp_path, f"import os\ntold, tell = os.pipe()\n{child}" if daemon else alone)
    assert set(tmp_path.glob("ompi.*")) == {before, elsewhere, other}
