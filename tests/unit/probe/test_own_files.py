"""What is loaded into the ranks: nothing that somebody else can have put there."""

import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autotune.errors import StackError
from autotune.probe import compiling
from autotune.probe.compiling import built
from autotune.probe.own_files import is_own, locked, make_own, opened_own

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture
def kernel(tmp_path):
    """A file of the user's own, in a directory of the user's own."""
    make_own(tmp_path / "cache" / "autotune")
    path = tmp_path / "cache" / "autotune" / "kernel.so"
    path.write_bytes(b"code")
    path.chmod(0o700)
    return path


@pytest.mark.parametrize("mode", [0o700, 0o770, 0o707, 0o722])
def test_what_the_user_alone_can_write_is_the_users(kernel, mode):
    kernel.chmod(mode)
    assert is_own(kernel) == (mode & 0o022 == 0)


@needs_root
def test_what_belongs_to_others_is_not(kernel):
    os.chown(kernel, 12345, 12345)
    assert not is_own(kernel)


def test_a_link_and_a_pipe_are_not(kernel):
    link, pipe = kernel.with_name("link.so"), kernel.with_name("pipe.so")
    link.symlink_to(kernel)
    os.mkfifo(pipe)
    assert not is_own(link)
    assert not is_own(pipe)
    with pytest.raises(OSError, match="link"), opened_own(link):
        pass


def test_a_lock_follows_no_link(tmp_path):
    target = tmp_path / "precious"
    target.write_text("mine")
    (tmp_path / "kernel.lock").symlink_to(target)
    with pytest.raises(OSError, match="link"), locked(tmp_path / "kernel.lock"):
        pass
    assert target.read_text() == "mine"
    with locked(tmp_path / "other.lock"):
        assert stat.S_IMODE((tmp_path / "other.lock").stat().st_mode) == 0o600


def test_a_directory_that_was_open_to_others_is_closed(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    make_own(tmp_path / "cache")
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


def test_a_directory_of_others_is_refused(tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError, match="own"):
        make_own(tmp_path / "link")
    if os.geteuid() == 0:
        os.chown(tmp_path / "theirs", 12345, 12345)
        with pytest.raises(OSError, match="own"):
            make_own(tmp_path / "theirs")


PLANTED = """
import sys
from pathlib import Path
from autotune.probe import compiling
path, compiler = Path(sys.argv[1]), Path(sys.argv[2])
loaded = (Path(line.split()[-1]) for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line)
library = next(found for found in loaded if found.name.startswith("libc.so"))
text = "int puts(const char *); int f(void) { return puts(0); }"
assert compiling.built(compiler, text, library, path) == path
made = path.read_bytes()
assert made.startswith(b"\\x7fELF")
assert compiling.built(Path("/no/compiler"), "", library, path) == path  # it is believed now
assert path.read_bytes() == made
"""


STALLED = """#!/bin/sh
echo part > "$TMPDIR/part.s"
sleep 1000 &
echo $! > "$0.pid"
wait
"""
SLOW = """#!/bin/sh
for i in $(seq 20); do sleep 0.2; echo part >> "$TMPDIR/part.s"; done
while [ "$1" != -o ]; do shift; done
cat > "$2"
"""


def fake_compiler(tmp_path, text):
    path = tmp_path / "mpicc"
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_compiler_that_does_nothing_is_ended_with_all_that_it_started(tmp_path, monkeypatch):
    monkeypatch.setattr(compiling, "_STALLED_S", 1.0)
    monkeypatch.setattr(compiling, "_LOOK_S", 0.1)
    compiler, path = fake_compiler(tmp_path, STALLED), tmp_path / "cache" / "kernel.so"
    with pytest.raises(StackError, match="did nothing for 1 s"):
        built(compiler, "int x;", None, path)
    assert [one.name for one in path.parent.iterdir()] == ["kernel.lock"]
    started = Path("/proc", (tmp_path / "mpicc.pid").read_text().strip())
    for _ in range(100):  # the kernel ends it when it can
        if not started.exists() or "Z" in (started / "stat").read_text().rpartition(")")[2].split()[0]:
            return
        time.sleep(0.1)
    pytest.fail(f"{started} still runs")


def test_a_slow_compiler_that_goes_on_is_waited_for(tmp_path, monkeypatch):
    """It takes four seconds, twice as long as it may do nothing; what a killed one has left goes away."""
    monkeypatch.setattr(compiling, "_STALLED_S", 2.0)
    compiler, path = fake_compiler(tmp_path, SLOW), tmp_path / "cache" / "kernel.so"
    (path.parent / "kernel.left").mkdir(parents=True)
    path.parent.chmod(0o700)
    (path.parent / "kernel.left" / "cc.s").touch()
    assert built(compiler, "int x;", None, path).read_text() == "int x;"
    assert sorted(one.name for one in path.parent.iterdir()) == ["kernel.lock", "kernel.so"]


@pytest.mark.mpi
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_planted_kernel_is_made_anew_and_never_loaded(tmp_path):
    path = tmp_path / "cache" / "kernel.so"
    path.parent.mkdir()
    path.write_text("planted")
    path.chmod(0o777)
    words = [sys.executable, "-c", PLANTED, str(path), shutil.which("cc")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert is_own(path)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_library_of_an_environment_whose_path_has_a_blank_is_its_own(tmp_path):
    library, path = tmp_path / "a user" / "libone.so", tmp_path / "cache" / "kernel.so"
    library.parent.mkdir()
    words = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(words, input="int one(void) { return 1; }", text=True, check=True)
    flags = ["-shared", "-fPIC", f"-L{library.parent}", f"-Wl,-rpath,{library.parent}"]
    flags += ["-Wl,--no-as-needed", "-lone"]
    text = "int one(void); int two(void) { return one() + 1; }"
    assert built(Path(shutil.which("cc")), text, library, path, flags) == path
