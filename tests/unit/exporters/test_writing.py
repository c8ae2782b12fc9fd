"""Files are written all or none, whatever is in the way; one message says what and where."""

import os
import resource
import shutil
import stat
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from autotune.errors import StorageError, UserError
from autotune.exporters.writing import write_files

NOBODY = 65534


def tree(folder):
    """Every file with its bytes and its mode."""
    paths = list(folder.rglob("*"))
    return {str(p.relative_to(folder)): (p.is_file() and p.read_bytes(), p.lstat().st_mode) for p in paths}


def can(*command):
    """Whether something can be done to the file system here."""
    missing = shutil.which(command[0]) is None
    return not missing and not subprocess.run(command, check=False, capture_output=True).returncode


@contextmanager
def refused(folder, kind, match):
    """Nothing changes in a folder, and the message says why."""
    before = tree(folder)
    with pytest.raises(kind, match=match) as error:
        yield
    assert "nothing was changed" in error.value.hint
    assert tree(folder) == before


@pytest.fixture
def old(tmp_path):
    """A file that is written before the one that fails."""
    path = tmp_path / "old"
    path.write_text("as it was")
    return path


def test_files_are_written_replaced_and_removed(tmp_path, old):
    (tmp_path / "gone").touch()
    old.chmod(0o640)
    new = tmp_path / "a" / "b" / "new"
    assert write_files({old: "now", new: b"\xff", tmp_path / "gone": None}, parents=True) == {}
    found = {path: content for path, (content, _) in tree(tmp_path).items() if content}
    assert found == {"old": b"now", "a/b/new": b"\xff"}
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(new.stat().st_mode) == 0o666 & ~umask


def test_a_copy_is_kept_with_its_mode_and_never_replaced(old):
    old.chmod(0o600)
    copies = [write_files({old: str(number)}, keep=[old])[old] for number in range(3)]
    assert [copy.read_text() for copy in copies] == ["as it was", "0", "1"]
    assert {stat.S_IMODE(copy.stat().st_mode) for copy in copies} == {0o600}


def test_a_link_is_followed_to_its_file(tmp_path, old):
    link = tmp_path / "link"
    link.symlink_to(old)
    write_files({link: "now"})
    assert link.is_symlink()
    assert old.read_text() == "now"


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("to nothing", "it is a link to .*/nowhere/file, which does not exist"),
        ("to itself", "to itself"),
        ("folder", "folder: Is a directory"),
        ("old/file", "Not a directory|File exists"),
    ],
)
def test_what_is_in_the_way_is_refused(tmp_path, old, name, match):
    (tmp_path / "to nothing").symlink_to(tmp_path / "nowhere" / "file")
    (tmp_path / "to itself").symlink_to(tmp_path / "to itself")
    (tmp_path / "folder").mkdir()
    with refused(tmp_path, UserError, match):
        write_files({tmp_path / "new": "1", tmp_path / name: "now"}, parents=True)


def test_a_missing_directory_is_refused_or_made_and_taken_back(tmp_path, old):
    with refused(tmp_path, UserError, "No such file"):
        write_files({old: "now", tmp_path / "no" / "file": "now"})
    (tmp_path / "folder").mkdir()
    with refused(tmp_path, UserError, "directory"):
        write_files({tmp_path / "made" / "too" / "x": "1", tmp_path / "folder": "2"}, parents=True)


def test_a_name_may_be_as_long_as_names_can_be(tmp_path):
    longest = tmp_path / ("n" * 255)
    write_files({longest: "1"})
    write_files({longest: "2"})
    assert longest.read_text() == "2"
    with refused(tmp_path, UserError, "too long"):
        write_files({tmp_path / ("n" * 256): "1"})


def test_a_device_and_a_pipe_are_written_to_as_they_are(tmp_path):
    write_files({Path("/dev/null"): "1"})
    assert Path("/dev/null").is_char_device()
    with pytest.raises(StorageError, match="/dev/full: No space left"):
        write_files({Path("/dev/full"): "1"})
    read, write = os.pipe()
    write_files({Path(f"/dev/fd/{write}"): "1"})
    assert os.read(read, 9) == b"1"
    os.close(read)
    os.close(write)


@pytest.fixture
def ordinary():
    """A folder of a user for whom modes count, which they do not for root."""
    folder = Path(tempfile.mkdtemp())
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    yield folder
    if os.getuid() == 0:
        os.seteuid(0)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700)
    shutil.rmtree(folder)


def test_what_is_read_only_stays(ordinary):
    (ordinary / "old").write_text("1")
    (ordinary / "shut").mkdir()
    (ordinary / "shut").chmod(0o500)
    with refused(ordinary, UserError, "shut/file: Permission denied"):
        write_files({ordinary / "old": "now", ordinary / "shut" / "file": "now"})
    (ordinary / "file").write_text("2")
    (ordinary / "file").chmod(0o400)
    with refused(ordinary, UserError, "file: Permission denied"):
        write_files({ordinary / "old": "now", ordinary / "file": "now"})


def test_what_cannot_be_changed_stays(tmp_path, old):
    fast = tmp_path / "fast"
    fast.write_text("1")
    if not can("chattr", "+i", fast):
        pytest.skip("no file can be made immutable here (chattr +i)")
    try:
        with refused(tmp_path, UserError, "fast: Operation not permitted"):
            write_files({old: "now", fast: "now"})
        with refused(tmp_path, UserError, "fast: Operation not permitted"):
            write_files({old: "now", fast: None})
    finally:
        subprocess.run(["chattr", "-i", fast], check=True)


def test_a_directory_that_lets_nothing_go_gives_back_what_was_replaced(tmp_path, old):
    """New files can still be made in it, none can be renamed: found out only after the first was."""
    folder = tmp_path / "append"
    folder.mkdir()
    (folder / "file").write_text("1")
    if not can("chattr", "+a", folder):
        pytest.skip("no directory can be made append-only here (chattr +a)")
    try:
        with pytest.raises(UserError, match="append/file: Operation not permitted"):
            write_files({old: "now", folder / "file": "now"})
        assert old.read_text() == "as it was"
        assert (folder / "file").read_text() == "1"
    finally:
        subprocess.run(["chattr", "-a", folder], check=True)


def test_a_limit_on_the_size_of_files_is_as_a_full_disk(tmp_path, old):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with refused(tmp_path, StorageError, "big: File too large"):
            write_files({old: "now", tmp_path / "big": "x" * 2000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_on_a_full_disk_nothing_changes(tmp_path):
    if not can("mount", "-t", "tmpfs", "-o", "size=16k", "none", tmp_path):
        pytest.skip("only root may mount, and not everywhere")
    try:
        (tmp_path / "old").write_text("1")
        with refused(tmp_path, StorageError, "big: No space left on device"):
            write_files({tmp_path / "old": "now", tmp_path / "big": "x" * 20000})
        subprocess.run(["mount", "-o", "remount,ro", tmp_path], check=True)
        with refused(tmp_path, StorageError, "old: Read-only file system"):
            write_files({tmp_path / "old": "now"})
    finally:
        subprocess.run(["umount", tmp_path], check=True)
