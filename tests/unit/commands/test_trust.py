"""Nothing that a journal or a recording names is started before its user is known to have meant it."""

import json
import os
import pty
import pwd
import shutil
import stat
import subprocess
import sys
from dataclasses import replace

import pytest

from autotune import Campaign
from autotune.application.scenario import of_recording
from autotune.campaign.sealing import is_sealed, seal, signed
from autotune.cli import main
from autotune.errors import JournalError, ScenarioError, UserError
from autotune.guard.facts import Facts
from autotune.guard.kept import Kept, read_kept, write_kept
from autotune.guard.place import recommendation_document
from autotune.guard.trust import check_kept
from autotune.history.folder import FILE
from autotune.history.journal import read_events, sealed
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.scenario import defaults, scenario_of
from autotune.space import Point
from autotune.structure import plain
from tests.golden.test_campaigns import GOLDEN
from tests.unit.application.test_scenario import RUN

WORDS = [
    "conf=command",
    "space=space.yaml",
    "campaign.dir=campaign",
    "budget.launches=3",
    "verify.enabled=false",
]


def at_home(monkeypatch, folder):
    """Have the system say that this is the user's home."""
    known = pwd.getpwuid(os.geteuid())
    theirs = pwd.struct_passwd((*known[:5], str(folder), known[6]))
    monkeypatch.setattr("pwd.getpwuid", lambda uid: theirs)


@pytest.fixture(autouse=True)
def keys(tmp_path, monkeypatch):
    """A home for keys, and a working directory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    at_home(monkeypatch, tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "state" / "autotune" / "key"


@pytest.fixture
def program(tmp_path):
    """An ``mpirun`` of somebody's, which leaves a trace, and the path of that."""
    program, trace = tmp_path / "mpirun", tmp_path / "owned"
    program.write_text(f"#!/bin/sh\necho run >> {trace}\nexit 1\n")
    program.chmod(0o755)
    return program, trace


@pytest.fixture
def foreign(tmp_path, program):
    """A campaign whose journal asks for a program, as it was unpacked; and the program's trace."""
    directory, (program, trace) = tmp_path / "campaign", program
    directory.mkdir(mode=0o700)
    lines = (GOLDEN / "local" / FILE).read_text().splitlines(keepends=True)
    begun = json.loads(lines[1])
    begun["scenario"]["mpi"]["mpirun"] = str(program)
    lines[1] = json.dumps(begun) + "\n"
    (directory / FILE).write_text("".join(lines[:-1]))  # without its end: there is something to go on with
    return directory, trace


@pytest.fixture
def own(tmp_path):
    """A campaign of this user's, of a program of theirs."""
    (tmp_path / "space.yaml").write_text("stack: command\nparameters: {x: {values: [1, 2]}}\n")
    program = f'[{sys.executable},-c,\'print(chr(123)+chr(34)+"t"+chr(34)+": 1.5"+chr(125))\']'
    words = [*WORDS, f"probe.options.run={program}", "responses.t=min"]
    assert main(words) == 0
    return tmp_path / "campaign"


def test_what_was_unpacked_is_not_gone_on_with(foreign):
    directory, trace = foreign
    with pytest.raises(JournalError, match="this user has not run the campaign") as refused:
        Campaign.open(directory).resume()
    assert str(trace.parent / "mpirun") in str(refused.value)
    assert not trace.exists()


def test_nor_is_it_verified_and_the_program_is_named_before_it_is_run(foreign, capsys):
    directory, trace = foreign
    assert main(["verify", str(directory)]) == 3
    assert "mpi.mpirun" in capsys.readouterr().err
    assert not trace.exists()
    assert main(["verify", str(directory), "--yes"]) == 2
    assert trace.exists()
    assert capsys.readouterr().err.startswith(
        f"the journal of {directory} asks to start:\n  launcher: MpirunLauncher\n"
        f"  mpi.mpirun: {trace.parent / 'mpirun'}\n"
    )


@pytest.mark.parametrize("answer", [b"y\n", b"n\n", b"\n"])
def test_who_sits_there_is_asked(foreign, answer):
    directory, trace = foreign
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    subprocess.run(
        [sys.executable, "-m", "autotune", "verify", str(directory)],
        stdin=theirs,
        capture_output=True,
        check=False,
    )
    assert trace.exists() == (answer == b"y\n")


@pytest.mark.parametrize("mode", [0o770, 0o720, 0o777])
@pytest.mark.parametrize("place", ["", FILE])
def test_what_others_may_write_is_not_obeyed(foreign, mode, place):
    directory, trace = foreign
    (directory / place).chmod(mode)
    with pytest.raises(JournalError, match="can be written by"):
        Campaign.open(directory).resume(yes=True)
    assert main(["verify", str(directory), "--yes"]) == 3
    assert not trace.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize("place", ["", FILE])
def test_nor_what_belongs_to_another_user(foreign, place, tmp_path, capsys):
    directory, trace = foreign
    shutil.copytree(GOLDEN / "simulated", tmp_path / "simulated")
    os.chown(directory / place, 12345, 12345)
    with pytest.raises(JournalError, match="belongs to another user"):
        Campaign.open(directory).resume(yes=True)
    for words in ([str(directory)], [str(tmp_path / "simulated"), "--against", str(directory), "--yes"]):
        assert main(["verify", *words]) == 3
        assert "another user" in capsys.readouterr().err
    assert not trace.exists()


def test_who_ran_a_campaign_is_not_asked(own, keys):
    assert is_sealed(read_events(own))
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    assert stat.S_IMODE(keys.parent.stat().st_mode) == 0o700
    assert Campaign.open(own).resume() == 0


def test_a_copy_of_it_is_theirs_too_and_one_that_says_something_else_is_not(own, tmp_path):
    shutil.copytree(own, tmp_path / "copy")
    assert is_sealed(read_events(tmp_path / "copy"))
    events = [
        {key: value for key, value in event.items() if key not in ("line", "crc")}
        for event in read_events(own)
    ]
    begun = next(event for event in events if event["event"] == "campaign")
    probe = {**begun["scenario"]["probe"], "options": {"run": ["rm"]}}
    begun["scenario"] = {**begun["scenario"], "probe": probe}
    (own / FILE).write_bytes(b"".join(sealed(event, n) for n, event in enumerate(events, start=1)))
    assert not is_sealed(read_events(own))


def test_another_user_s_seal_is_none(own, keys):
    keys.unlink()
    assert not is_sealed(read_events(own))
    with pytest.raises(JournalError, match="this user has not run"):
        Campaign.open(own).resume()


def test_without_a_home_nothing_is_sealed(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    at_home(monkeypatch, tmp_path / "file")
    assert seal([{"event": "campaign"}]) == ""
    assert not is_sealed([{"event": "campaign"}, {"event": "started", "seal": ""}])


def test_a_key_that_others_could_have_written_is_none(keys):
    before = seal([])
    keys.chmod(0o666)
    assert before != seal([]) != ""  # by that of the system's home


def test_what_was_sealed_is_so_in_another_home_of_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_STATE_HOME")
    events = [{"event": "campaign"}]
    events = [*events, {"event": "started", "seal": seal(events)}]
    monkeypatch.setenv("HOME", str(tmp_path / "another"))
    assert is_sealed(events)
    at_home(monkeypatch, tmp_path / "stranger")
    assert not is_sealed(events)


def test_the_launcher_of_somebody_s_recording_is_not_run(tmp_path, monkeypatch):
    theirs, mine = tmp_path / "theirs" / "mpirun", tmp_path / "bin" / "mpirun"
    for program in (theirs, mine):
        program.parent.mkdir()
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(mine.parent))
    for word in (theirs, mine):
        (tmp_path / f"{word.parent.name}.json").write_text(
            json.dumps(replace(RUN, command=(str(word), "./app")).document())
        )
    with pytest.raises(ScenarioError, match="is not the mpirun of your PATH"):
        of_recording({"calls": str(tmp_path / "theirs.json")})
    assert of_recording({"calls": str(tmp_path / "bin.json")})["mpi"] == {"mpirun": str(mine)}


@pytest.fixture
def kept(tmp_path, program):
    """What ``guard keep`` would have written of an ``mpirun``, and that one's trace."""
    folder, (program, trace) = tmp_path / "guard", program
    folder.mkdir()
    scenario = {**defaults(), "mpi": {**defaults()["mpi"], "mpirun": str(program)}}
    asked = plain(scenario_of({**scenario, "campaign": {"dir": "x", "fresh": False}}, "theirs"))
    source = Provenance("theirs", "2026-11-01", "Open MPI 5.0.8", 1, 2, family="openmpi")
    document = recommendation_document(Recommendation(Point(), (), (), source))
    facts = Facts(mpirun=str(program))
    write_kept(folder, Kept("2026-11-01T00:00:00Z", str(tmp_path), document, facts, asked))
    return folder, trace


def test_what_somebody_else_keeps_is_not_checked(kept, capsys):
    folder, trace = kept
    assert main(["guard", "check", str(folder.parent), "--quick"]) == 2
    said = capsys.readouterr().err
    assert "this user has not kept" in said
    assert str(folder.parent / "mpirun") in said
    assert not trace.exists()
    main(["guard", "check", str(folder.parent), "--quick", "--yes"])
    assert trace.exists()


def test_what_this_user_keeps_is_checked_unless_it_says_something_else(kept):
    folder, trace = kept
    ours = read_kept(folder)
    write_kept(folder, replace(ours, seal=signed(ours.meant)))
    main(["guard", "check", str(folder.parent), "--quick"])
    assert trace.exists()
    trace.unlink()
    for key in ("settings", "scenario", "launcher"):
        document = json.loads((folder / "kept.json").read_text())
        document[key] = "/elsewhere" if key == "settings" else {**document[key], "name": "another"}
        (folder / "kept.json").write_text(json.dumps(document))
        assert main(["guard", "check", str(folder.parent), "--quick"]) == 2
        assert not trace.exists()
        write_kept(folder, replace(ours, seal=signed(ours.meant)))


def owned_by_root(monkeypatch):
    """Have files of this user's be root's, and this user be another one."""
    owner = os.stat_result((0o100644, 1, 1, 1, 0, 0, 0, 0, 0, 0))
    monkeypatch.setattr("autotune.guard.trust.os.geteuid", lambda: 12345)
    monkeypatch.setattr("pathlib.Path.stat", lambda path, **keywords: owner)


def test_what_root_keeps_every_other_user_checks(kept, monkeypatch):
    folder, _ = kept
    document = read_kept(folder)
    owned_by_root(monkeypatch)
    check_kept(folder, document, False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's files are root's")
@pytest.mark.parametrize("way", ["tar", "copy", "clone"])
def test_to_root_its_own_ownership_says_nothing(kept, tmp_path, way, capsys):
    """Unpacking, copying and cloning give what a stranger wrote to root."""
    folder, trace = kept
    theirs, here = folder.parent / "theirs", tmp_path / "here"
    shutil.copytree(folder, theirs / "guard")
    for path in (theirs, *theirs.rglob("*")):
        os.chown(path, 12345, 12345)
    if way == "tar":
        here.mkdir()
        subprocess.run(["tar", "-cf", tmp_path / "a.tar", "-C", theirs, "guard"], check=True)
        subprocess.run(["tar", "-xf", tmp_path / "a.tar", "-C", here, "--no-same-owner"], check=True)
    elif way == "copy":
        subprocess.run(["cp", "-r", theirs, here], check=True)
    else:
        git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "safe.directory=*"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "kept"]):
            subprocess.run([*git, *words], cwd=theirs, check=True)
        subprocess.run([*git, "clone", "-q", theirs, here], check=True)
    assert (here / "guard" / "kept.json").stat().st_uid == 0
    assert main(["guard", "check", str(here), "--quick"]) == 2
    assert "this user has not kept" in capsys.readouterr().err
    assert not trace.exists()
    main(["guard", "check", str(here), "--quick", "--yes"])
    assert trace.exists()


def test_what_this_user_kept_is_checked_under_another_home(kept, monkeypatch, tmp_path):
    folder, _ = kept
    monkeypatch.delenv("XDG_STATE_HOME")
    ours = read_kept(folder)
    write_kept(folder, replace(ours, seal=signed(ours.meant)))
    monkeypatch.setenv("HOME", str(tmp_path / "cron"))  # as ReFrame and cron run it
    check_kept(folder, read_kept(folder), False)
    at_home(monkeypatch, tmp_path / "stranger")
    with pytest.raises(UserError, match="this user has not kept"):
        check_kept(folder, read_kept(folder), False)
