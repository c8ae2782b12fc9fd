"""The journal under damage and attack: nothing that was changed is accepted, and nothing is a traceback."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.cli import main
from autotune.errors import JournalError, LockedError
from autotune.history.events import history_of, observation_event, replayed, trial_event
from autotune.history.journal import FILE, Journal, read_events, sealed
from autotune.history.repair import salvaged
from autotune.history.trial import Observation, Phase, Status, Trial
from autotune.space import Point
from tests.golden.test_campaigns import GOLDEN

EVENTS = [json.loads(line) for line in (GOLDEN / "simulated" / FILE).read_text().splitlines()][1:]
FLIPS = 3000


def written(directory, events=EVENTS):
    """A journal of this version with these events; what is read of it, and its bytes."""
    with Journal(directory) as journal:
        for event in events:
            journal.append(event)
    return read_events(directory), (directory / FILE).read_bytes()


def lines_of(text):
    return text.splitlines(keepends=True)


def test_no_flipped_bit_is_accepted_with_changed_data(tmp_path):
    whole, text = written(tmp_path, EVENTS[:40])
    path, rng, lost_the_last = tmp_path / FILE, random.Random(7), 0
    for _ in range(FLIPS):
        bit = rng.randrange(len(text) * 8)
        flipped = bytearray(text)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            found = read_events(tmp_path)
        except JournalError as error:
            assert "line" in str(error) or "version" in str(error)
            continue
        assert found == whole[:-1]  # the last line break: what it ended counts as torn
        lost_the_last += 1
    assert lost_the_last <= FLIPS // 100


@pytest.mark.parametrize("at", [3, 20])
def test_a_doubled_line_and_a_missing_one_are_errors_that_name_them(tmp_path, at):
    _, text = written(tmp_path)
    lines, path = lines_of(text), tmp_path / FILE
    path.write_bytes(b"".join([*lines[:at], lines[at - 1], *lines[at:]]))
    with pytest.raises(JournalError, match=f"line {at + 1} is there twice"):
        read_events(tmp_path)
    path.write_bytes(b"".join([*lines[: at - 1], *lines[at:]]))
    with pytest.raises(JournalError, match=f"line {at} is not there"):
        read_events(tmp_path)


def test_what_follows_a_journal_of_the_first_version_is_sealed(tmp_path):
    old = b"".join(lines_of((GOLDEN / "simulated" / FILE).read_bytes())[:20])
    (tmp_path / FILE).write_bytes(old)
    with Journal(tmp_path) as journal:
        journal.append({"event": "note"})
        journal.append({"event": "note"})
    text = (tmp_path / FILE).read_bytes()
    assert text.startswith(old)
    (tmp_path / FILE).write_bytes(text.replace(b',"crc"', b',"src"', 2))
    read_events(tmp_path)  # an old line may say anything
    (tmp_path / FILE).write_bytes(text.replace(b'"line":22,"crc"', b'"line":22,"src"'))
    with pytest.raises(JournalError, match="line 22"):
        read_events(tmp_path)


TRIAL = trial_event(Trial(1, Phase.BASELINE, Point()))
SEEN = observation_event(Observation(Trial(1, Phase.BASELINE, Point()), Status.CRASHED, reason="signal 11"))


@pytest.mark.parametrize(
    "events",
    [
        [SEEN],
        [TRIAL, TRIAL, SEEN],
        [TRIAL, SEEN, SEEN],
        [{**TRIAL, "number": None}],
        [{**TRIAL, "number": 1e30}],
        [{"event": "trial"}],
    ],
)
def test_events_of_an_old_journal_that_contradict_each_other_are_errors(events):
    with pytest.raises(JournalError):
        history_of(events)


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"event":7}'])
def test_lines_of_an_old_journal_that_say_nothing_are_errors(tmp_path, line):
    (tmp_path / FILE).write_bytes(b'{"event":"journal","version":1}\n' + line + b"\n")
    with pytest.raises(JournalError, match="line 2"):
        read_events(tmp_path)


class TestRepair:
    """What can be read is kept, the damaged journal too, and what was lost is said."""

    def test_a_whole_journal_is_left_alone(self, tmp_path, capsys):
        _, text = written(tmp_path)
        assert main(["status", str(tmp_path), "--repair"]) == 0
        assert "nothing is damaged" in capsys.readouterr().out
        assert (tmp_path / FILE).read_bytes() == text

    def test_an_altered_a_doubled_and_a_missing_line(self, tmp_path, capsys):
        whole, text = written(tmp_path)
        lines = lines_of(text)
        altered = lines[9].replace(b"1", b"2", 1)
        damaged = b"".join(
            [*lines[:9], altered, *lines[10:15], lines[14], *lines[15:20], *lines[21:], b'{"ev']
        )
        (tmp_path / FILE).write_bytes(damaged)
        assert main(["status", str(tmp_path)]) == 3
        assert "line 10" in (told := capsys.readouterr().err)
        assert "repair" in told
        assert main(["status", str(tmp_path), "--repair"]) == 0
        said = capsys.readouterr().out
        assert "line 10" in said
        assert "line 15 again" in said
        assert "cut off" in said
        assert (tmp_path / f"{FILE}.damaged.1").read_bytes() == damaged
        kept = read_events(tmp_path)
        assert all(event in whole for event in kept[1:])
        assert len(whole) - 4 <= len(kept) < len(whole)
        assert main(["status", str(tmp_path)]) == 0
        history_of(kept)

    def test_what_was_seen_of_a_trial_is_made_again_if_its_line_is_lost(self, tmp_path):
        _, text = written(tmp_path, EVENTS[:30])
        lines = lines_of(text)
        places = [i for i, event in enumerate(EVENTS[:30]) if event["event"] == "observation"][2:4]
        left = salvaged(b"".join(line for i, line in enumerate(lines) if i - 1 not in places))
        _, again = replayed(left.events)
        assert {trial.number for trial in again} >= {EVENTS[i]["trial"] for i in places}
        assert any("2 line(s)" in words for words in left.lost)

    def test_without_its_description_a_campaign_cannot_be_repaired(self, tmp_path, capsys):
        _, text = written(tmp_path)
        (tmp_path / FILE).write_bytes(b"".join(line for i, line in enumerate(lines_of(text)) if i != 1))
        before = (tmp_path / FILE).read_bytes()
        assert main(["status", str(tmp_path), "--repair"]) == 3
        assert "cannot be repaired" in capsys.readouterr().err
        assert (tmp_path / FILE).read_bytes() == before

    def test_a_campaign_that_runs_is_left_alone(self, tmp_path, capsys):
        written(tmp_path)
        with Journal(tmp_path):
            assert main(["status", str(tmp_path), "--repair"]) == 4

    def test_any_damage_leaves_a_journal_that_is_read(self, tmp_path):
        _, text = written(tmp_path, EVENTS[:30])
        rng = random.Random(3)
        for _ in range(200):
            damaged = bytearray(text)
            for _ in range(rng.randrange(1, 6)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            try:
                left = salvaged(bytes(damaged))
            except JournalError as error:
                assert "cannot be repaired" in str(error)
                continue
            lines = [{"event": "journal", "version": 2}, *left.events]
            (tmp_path / FILE).write_bytes(b"".join(sealed(e, n) for n, e in enumerate(lines, start=1)))
            history_of(read_events(tmp_path))


class TestWhoMayWrite:
    """The journal is the user's own file in the user's own directory."""

    def test_what_is_new_is_for_the_user_alone(self, tmp_path):
        before = os.umask(0)
        try:
            written(tmp_path / "a" / "campaign", EVENTS[:2])
        finally:
            os.umask(before)
        assert (tmp_path / "a" / "campaign").stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "a" / "campaign" / FILE).stat().st_mode & 0o777 == 0o600

    def test_a_directory_that_everybody_can_write_is_refused(self, tmp_path):
        tmp_path.chmod(0o777)
        with pytest.raises(JournalError, match="everybody"):
            Journal(tmp_path)

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
    def test_a_directory_of_another_user_is_refused(self, tmp_path):
        os.chown(tmp_path, 12345, 12345)
        with pytest.raises(JournalError, match="another user"):
            Journal(tmp_path)

    def test_no_link_is_followed(self, tmp_path):
        target = tmp_path / "elsewhere"
        target.write_bytes(b"")
        directory = tmp_path / "campaign"
        directory.mkdir(mode=0o700)
        (directory / FILE).symlink_to(target)
        for touch in (Journal, read_events):
            with pytest.raises(JournalError, match="is a link"):
                touch(directory)
        assert target.read_bytes() == b""

    def test_a_device_in_its_place_does_not_hang(self, tmp_path):
        os.mkfifo(tmp_path / FILE)
        with pytest.raises(JournalError):
            read_events(tmp_path)
        (tmp_path / "other" / FILE).mkdir(parents=True)
        with pytest.raises(JournalError):
            read_events(tmp_path / "other")

    def test_a_journal_that_was_moved_is_no_longer_written(self, tmp_path):
        directory = tmp_path / "campaign"
        with Journal(directory) as journal:
            directory.rename(tmp_path / "aside")
            with Journal(directory) as other:
                other.append({"event": "note"})
            with pytest.raises(JournalError, match="was replaced while the campaign ran: 1 events had been"):
                journal.append({"event": "note"})
        assert [len(read_events(tmp_path / name)) for name in ("campaign", "aside")] == [2, 1]
        with Journal(directory), pytest.raises(LockedError):
            Journal(directory)


SPOILT = {
    "removed": lambda path: path.unlink(),
    "removed with its directory": lambda path: shutil.rmtree(path.parent),
    "replaced": lambda path: Path(shutil.copy(path, path.with_name("new"))).replace(path),
    "cut short": lambda path: os.truncate(path, path.stat().st_size - 10),
    "cut short to nothing": lambda path: os.truncate(path, 0),
    "written by somebody else": lambda path: path.write_bytes(path.read_bytes() + b"{}\n"),
}


@pytest.mark.parametrize("how", SPOILT)
def test_what_becomes_of_a_journal_while_it_is_written_ends_that(tmp_path, how):
    with Journal(tmp_path / "campaign") as journal:
        journal.append({"event": "note"})
        path = tmp_path / "campaign" / FILE
        SPOILT[how](path)
        before = path.read_bytes() if path.exists() else None
        for _ in range(2):
            with pytest.raises(
                JournalError, match="while the campaign ran: 2 events had been written"
            ) as told:
                journal.append({"event": "note"})
            assert f" was {how.split(' with ')[0].split(' to ')[0]} " in str(told.value)
        assert (path.read_bytes() if path.exists() else None) == before


FILL = """
import resource, signal, sys
from pathlib import Path
from autotune.errors import StorageError
from autotune.history.journal import Journal, read_events
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
directory = Path(sys.argv[1])
with Journal(directory) as journal:
    size = (directory / "journal.jsonl").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, resource.RLIM_INFINITY))
    journal.append({"event": "note"})
    before = read_events(directory)
    try:
        journal.append({"event": "note", "text": "x" * 1000})
    except StorageError as error:
        print(error.exit_code, error)
    assert read_events(directory) == before
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    journal.append({"event": "note", "text": "x" * 1000})
print(len(read_events(directory)))
"""


def test_where_no_room_is_left_the_journal_stays_as_it_was(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(tmp_path)], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("4 ")
    assert done.stdout.endswith("\n3\n")
