"""Completion in the shells themselves: the script is loaded, and the shell asked how a line may go on."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from autotune.cli import main
from autotune.commands.keys import completed
from tests.program import _environment, ran
from tests.unit.test_docs import ROOT

SHELLS = ("bash", *(pytest.param(name, marks=pytest.mark.debian) for name in ("zsh", "fish")))
PROGRAM = f"#!{sys.executable}\nfrom autotune.__main__ import main\n\nmain()\n"


@pytest.fixture
def place(tmp_path):
    """A home with the command in its PATH, as an installation makes it, and a folder of a campaign."""
    (tmp_path / "bin").mkdir()
    (command := tmp_path / "bin" / "autotune").write_text(PROGRAM)
    command.chmod(0o755)
    (tmp_path / "campaigns").mkdir()
    return tmp_path


def run(shell, script, place, *options):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here; .ci/run installs it")
    paths = os.pathsep.join([str(ROOT), str(ROOT / "launchers"), str(ROOT / "plugins")])
    path = f"{place / 'bin'}:{os.environ['PATH']}"
    env = _environment({"HOME": str(place), "PATH": path, "PYTHONPATH": paths, "TERM": "dumb"})
    done = ran([shell, *options, "-c", script], cwd=place, env=env, timeout=250)
    assert "Traceback" not in done.stderr + done.stdout
    return done


ASKING = {
    # What readline does: it splits the line, also at =, and calls the function with three of its words.
    "bash": """
eval "$(autotune completion bash)"
read -ra COMP_WORDS <<< "$(sed 's/=/ = /g' <<< '{line}')"
[[ '{line}' == *' ' ]] && COMP_WORDS+=("")
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
function=$(complete -p autotune | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
"$function" autotune "${{COMP_WORDS[-1]}}" "${{COMP_WORDS[-2]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
""",
    "zsh": """
autoload -Uz compinit; compinit -u -D
eval "$(autotune completion zsh)"
line='{line}'; words=(${{(s: :)line}}); [[ "$line" == *' ' ]] && words+=('')
CURRENT=$#words
_arguments() {{ print -r -- "$@" }}
_files() {{ print files }}
$_comps[autotune]
""",
    "fish": """
autotune completion fish | source
complete --do-complete '{line}'
""",
}
"""Shell → a script that prints how a line may go on."""


def asked(shell, line, place):
    """The words that a shell offers, without their explanations."""
    done = run(shell, ASKING[shell].format(line=line), place, *(["-f"] if shell == "zsh" else []))
    assert done.returncode == 0, done.stderr
    assert "autotune:" not in done.stderr, done.stderr
    shown = done.stdout
    if shell == "zsh":
        return {*re.findall(r'"([^"]+)"(?::"[^"]*")?', shown)}
    return {word.partition("\t")[0] for word in shown.splitlines()}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "wanted", "others"),
    [
        ("autotune st", {"status"}, set()),
        ("autotune gua", {"guard"}, set()),  # a companion's
        ("autotune guard ch", {"check"}, set()),
        ("autotune help gua", {"guard"}, set()),
        ("autotune export --cho", {"--choice"}, set()),
        ("autotune export --choice ov", {"overall"}, set()),
        ("autotune lint --format s", {"sarif"}, {"json"}),
        ("autotune lint --mpi ", {"openmpi4", "openmpi5", "openmpi6"}, set()),
        ("autotune conf=allreduce_l", {"allreduce_local"}, {"allreduce_8node"}),
        ("autotune plan conf=allreduce_local proposer=ra", {"random"}, {"grid"}),
        ("autotune plan conf=allreduce_local hydra/launcher=", {"simulated", "mpirun"}, {"basic"}),
        ("autotune plan space=disc", {"discover"}, {"openmpi_ucx_local"}),
    ],
)
def test_a_shell_completes(shell, line, wanted, others, place):
    offered = {word.partition("=")[2] or word for word in asked(shell, line, place)}
    assert wanted <= offered
    assert not others & offered


@pytest.mark.parametrize("shell", SHELLS)
def test_where_nothing_is_known_the_shell_offers_its_files(shell, place):
    """By an empty answer, for which readline completes paths; fish does so by itself, and zsh is told to."""
    line = "autotune status camp"
    if shell == "zsh":
        assert run(shell, ASKING[shell].format(line=line), place, "-f").stdout == "files\n"
    else:
        assert asked(shell, line, place) == ({"campaigns/"} if shell == "fish" else {""})
        assert shell == "fish" or "-o default" in run(shell, "autotune completion bash", place).stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_it_is_installed_for_the_shell_that_asks(shell, place):
    done = run(shell, "autotune --install-completion; true", place)
    assert f"{shell} completion installed in " in done.stdout, done.stderr
    kept = Path(done.stdout.partition(" installed in ")[2].split("\n")[0])
    assert kept.is_relative_to(place)
    assert "_AUTOTUNE_COMPLETE=" in kept.read_text()


@pytest.mark.parametrize(
    ("words", "incomplete", "offered"),
    [
        ((), "co", ["conf=", "collective="]),
        ((), "prop", ["proposer=ax", "proposer=curve"]),
        (("conf",), "", ["allreduce_8node", "allreduce_local"]),  # bash, right behind the sign
        (("conf", "="), "allr", ["allreduce_8node", "allreduce_local"]),
        (("conf", "=", "x", "mpi.from"), "", ["auto", "site", "wheel"]),
        (("conf=x",), "mpi.from=s", ["mpi.from=site"]),
        (("conf=x",), "seed=", []),
        (("conf", "=", "x", "seed", "="), "1", []),
    ],
)
def test_a_word_may_become(words, incomplete, offered):
    found = completed(words, incomplete)
    assert found[: len(offered)] == offered
    assert bool(found) == bool(offered)


def test_between_words_all_keys_are_offered_whose_values_have_names():
    keys = completed(("conf=x",), "")
    assert {"conf=", "budget=", "space=", "hydra/launcher=", "mpi.stack="} <= {*keys}
    assert all(word.endswith("=") for word in keys)


def test_paths_are_offered_behind_keys_that_name_files(tmp_path):
    (tmp_path / "mine.yaml").touch()
    assert completed((), f"space={tmp_path}/mi") == [f"space={tmp_path}/mine.yaml"]
    assert completed(("space", "="), f"{tmp_path}/mi") == []  # bash completes these itself


@pytest.mark.parametrize("words", [["completion"], ["completion", "csh"]])
def test_a_shell_that_is_not_known_is_one_message(words, capsys):
    assert main(words) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 2
    assert "see: autotune completion --help" in said


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (["help"], ["--help"]),
        (["help", "plan"], ["plan", "--help"]),
        (["help", "guard", "check"], ["guard", "check", "--help"]),
        (["help", "knobs"], ["doctor", "--help"]),
    ],
)
def test_help_is_a_verb(words, same, capsys):
    assert main(words) == 0
    said = capsys.readouterr()
    assert main(same) == 0
    assert said == capsys.readouterr()
    assert said.out.startswith("Usage: ")


def test_help_of_what_is_no_verb_is_one_message(capsys):
    assert main(["help", "statsu"]) == 2
    assert "did you mean status?" in capsys.readouterr().err


def test_help_has_its_verbs_in_sections(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    titles = ["Tune:", "Apply:", "Check:", "My application:", "Tables:"]
    places = [shown.index(f"\n{title}\n") for title in titles]
    assert places == sorted(places)
    section = shown[places[2] : places[3]]
    assert all(f"\n  {verb} " in section for verb in ("doctor", "lint", "guard"))
    assert "More:" not in shown
