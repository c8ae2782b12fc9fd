"""``campaign.notify``: whoever sleeps is told, and whatever goes wrong with that changes nothing."""

import pytest

from autotune.cli import main
from autotune.commands.hydra_bridge import run_task
from autotune.commands.notice import notifying
from autotune.commands.tune import tune
from autotune.errors import CampaignError, ExitCode, HandedOver, Interrupted, ScenarioError
from tests.unit.commands.test_tune import SMALL, WORDS


@pytest.fixture
def told(tmp_path):
    """A command that writes its words down and fails, and what it was told."""
    script = tmp_path / "tell"
    script.write_text(f"""#!/bin/sh
printf '%s\\n' "$@" > {tmp_path}/told
exit 7
""")
    script.chmod(0o700)
    return script, lambda: (tmp_path / "told").read_text().splitlines()


def test_a_campaign_tells_its_end_without_a_shell_and_a_failing_command_changes_nothing(
    tmp_path, monkeypatch, capsys, told
):
    monkeypatch.chdir(tmp_path)
    words = [*WORDS, *SMALL, f"campaign.notify=[{told[0]},'a $(touch x) b']"]
    assert run_task(tune, words) == ExitCode.WELL
    first, directory, text, code = told[1]()
    assert (first, directory, code) == ("a $(touch x) b", f"{tmp_path}/campaigns/allreduce_8node", "0")
    assert text.startswith("allreduce_8node")
    assert "[not verified]" in text
    assert not (tmp_path / "x").exists()
    assert capsys.readouterr().err.endswith("failed: exit code 7\n")


@pytest.mark.parametrize("error", [CampaignError("it is\nbroken", "see"), Interrupted("interrupted")])
def test_a_campaign_that_cannot_go_on_is_told_with_its_exit_code(tmp_path, told, error):
    with pytest.raises(type(error)), notifying((str(told[0]),), tmp_path):
        raise error
    directory, text, code = told[1]()
    assert (directory, code) == (str(tmp_path), str(int(error.exit_code)))
    assert text == error.on_one_line


def test_a_job_that_hands_over_tells_nothing(tmp_path, told):
    with pytest.raises(HandedOver), notifying((str(told[0]),), tmp_path):
        raise HandedOver("the next job goes on")
    assert not (tmp_path / "told").exists()


def test_a_program_that_is_not_there_is_refused_before_anything_is_launched(tmp_path):
    with pytest.raises(ScenarioError, match="no program 'nosuch'"), notifying(("nosuch",), tmp_path):
        pytest.fail("it was begun")


def test_a_command_that_cannot_be_run_is_one_warning(tmp_path, capsys):
    (tmp_path / "broken").write_bytes(b"\x7fELF")
    (tmp_path / "broken").chmod(0o700)
    with notifying((str(tmp_path / "broken"),), tmp_path):
        pass
    assert capsys.readouterr().err.count("\n") == 1


def test_a_secret_of_the_environment_is_refused_there(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOKEN", "hidden")
    assert main([*WORDS, *SMALL, "campaign.notify=[echo,'${oc.env:TOKEN}']"]) == ExitCode.MISTAKE
    said = capsys.readouterr().err
    assert "campaign.notify.1 comes out of the environment" in said
    assert "hidden" not in said
