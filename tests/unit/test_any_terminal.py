"""Every terminal, locale and name of a directory, and a reader that goes away: no traceback."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from autotune.cli import main
from autotune.errors import printable
from autotune.stacks.installation import _on_path
from tests.program import _environment, autotune, ran

LOCALES = {
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


@pytest.mark.parametrize("locale", LOCALES.values(), ids=LOCALES)
@pytest.mark.parametrize("words", [["--help"], ["plan", "conf=allreduce_8node"]], ids=" ".join)
def test_a_sign_that_a_terminal_lacks_is_no_mistake(tmp_path, locale, words):
    command = [sys.executable, "-m", "autotune", *words]
    done = subprocess.run(command, cwd=tmp_path, env=_environment(locale), capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_a_directory_whose_name_is_no_utf_8(tmp_path):
    place = tmp_path / os.fsdecode(b"d\xff")
    words = ("conf=allreduce_8node", "hydra/launcher=simulated", "proposer=random", "budget.launches=14")
    place.mkdir()
    for asked in (
        (*words, "verify.enabled=false", "campaign.dir=c"),
        ("status", place / "c"),
        ("report", place / "c"),
        ("export", "c"),
    ):
        done = autotune(*asked, cwd=place)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--info", "defaults", "conf=allreduce_8node"],
        ["--help"],
        ["doctor", "--help"],
        ["plan", "conf=allreduce_8node"],
    ],
    ids=" ".join,
)
def test_a_reader_that_goes_away_has_seen_enough(tmp_path, words):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "autotune", *words]
    done = subprocess.run(
        command, cwd=tmp_path, env=_environment({}), stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert done.returncode == 0
    assert not done.stderr, done.stderr


STREAMS = {"in": "<&-", "out": ">&-", "err": "2>&-", "all": "<&- >&- 2>&-"}


@pytest.mark.parametrize(
    ("closed", "words", "code"),
    [
        *((one, "status nowhere", 2) for one in STREAMS.values()),
        (STREAMS["all"], "plan --list", 0),
        (STREAMS["out"], "--help", 0),
    ],
)
def test_streams_that_were_closed_lead_nowhere(tmp_path, closed, words, code):
    line = f"exec {sys.executable} -m autotune {words} {closed}"
    done = ran(["sh", "-c", line], cwd=tmp_path, env=_environment({}))
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("words", "code"), [("--help", 4), ("status nowhere", 2)])
def test_an_exit_code_says_it_where_no_word_can_be_written(tmp_path, words, code):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        command = [sys.executable, "-m", "autotune", *words.split()]
        done = subprocess.run(command, cwd=tmp_path, env=_environment({}), stdout=full, stderr=full)
    assert done.returncode == code


def test_what_takes_more_memory_than_there_is_is_one_message(monkeypatch, capsys):
    def greedy(directory, as_json):
        raise MemoryError

    monkeypatch.setattr("autotune.commands.status.status", greedy)
    assert main(["status", "here"]) == 2
    assert capsys.readouterr().err.startswith("autotune: there is not enough memory")


@pytest.mark.parametrize("words", ["status nowhere", "record -- true", "conf=allreduce_8node"])
def test_a_directory_that_was_removed_under_its_user_is_one_message(tmp_path, words):
    line = f"mkdir gone; cd gone; rmdir ../gone; exec {sys.executable} -m autotune {words}"
    done = ran(["sh", "-c", line], cwd=tmp_path, env=_environment({}))
    assert done.returncode == 2
    assert done.stderr.startswith("autotune: the directory that this was started in: No such file")
    assert "Traceback" not in done.stderr


def test_help_says_the_exit_codes_in_lines_of_their_own(capsys):
    assert main(["--help"]) == 0
    assert re.search(r"^  Exit codes: 0 well", printable(capsys.readouterr().out), re.MULTILINE)


@pytest.mark.parametrize("word", ["conf=[[]]", "hydra.launcher=inf", "hydra.launcher=5", "+="])
def test_words_that_hydra_trips_over(tmp_path, word):
    done = autotune("plan", "conf=allreduce_8node", word, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("autotune: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("verb", ["status", "export", "lint", "import"])
def test_a_name_that_no_file_system_takes(tmp_path, verb, capsys):
    assert main([verb, str(tmp_path / ("x" * 300))]) == 2
    assert "File name too long" in capsys.readouterr().err


def test_a_folder_of_the_path_that_cannot_be_searched_is_passed_over(tmp_path):
    (program := tmp_path / "mpirun").write_text("")
    program.chmod(0o755)
    assert _on_path("mpirun", ["/" + "x" * 300, str(tmp_path)]) == program


UNPRIVILEGED = """
import os
from autotune.errors import UserError
from autotune.stacks.application import installation_of
from autotune.stacks.installation import _on_path
if os.geteuid() == 0:  # who searches every folder
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
closed, _ = os.get_exec_path()
try:
    os.stat(closed + "/mpirun")
except PermissionError:
    print(_on_path("mpirun", os.get_exec_path()))
    try:
        installation_of(["no-such-program"])
    except UserError as exc:
        print(exc.message)
"""


def test_a_folder_of_the_path_that_is_closed_to_its_user_is_passed_over():
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        folder = Path(name)
        folder.chmod(0o755)
        (closed := folder / "closed").mkdir(mode=0)
        (program := folder / "mpirun").write_text("")
        program.chmod(0o755)
        env = {**os.environ, "PATH": f"{closed}:{folder}", "PYTHONPATH": os.pathsep.join(sys.path)}
        done = ran([sys.executable, "-c", UNPRIVILEGED], env=env, cwd=name)
    assert done.returncode == 0, done.stderr
    found, said = done.stdout.splitlines()
    assert found == str(program)
    assert "no-such-program" in said
