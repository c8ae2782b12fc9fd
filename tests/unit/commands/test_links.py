"""A campaign's directory can be anybody's work: no writer touches what a link in it leads to."""

import os
import shutil
from pathlib import Path

import pytest

from autotune.campaign.observing import launch_directory
from autotune.cli import main
from autotune.errors import AutotuneError, JournalError, ScenarioError
from autotune.exporters.writing import write_files
from autotune.guard.kept import KEPT, NIGHTS, Night, add_night, write_kept
from autotune.history.folder import FILE, make_empty, remove_folder
from autotune.history.journal import Journal
from autotune.site.directory import job_folder
from autotune.stacks.application import Background
from hydra_plugins.autotune._slurm_batch import BatchSettings, Nodes, Order, submit
from hydra_plugins.autotune._slurm_jobs import Slurm
from tests.golden.test_campaigns import GOLDEN
from tests.unit.campaign.test_observing import TRIAL
from tests.unit.guard.test_kept import WHAT

MINE = "alias ls='ls --color'\n"


@pytest.fixture
def campaign(tmp_path):
    """A campaign as it was unpacked."""
    directory = tmp_path / "foreign"
    directory.mkdir(mode=0o700)
    shutil.copy(GOLDEN / "local" / FILE, directory)
    return directory


@pytest.fixture
def home(tmp_path):
    """The user's own, with a file in it."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / ".bashrc").write_text(MINE)
    return folder


def untouched(home: Path) -> bool:
    """Whether nothing was written, made or removed there."""
    return [path.name for path in home.rglob("*")] == [".bashrc"] and (home / ".bashrc").read_text() == MINE


def planted(campaign: Path, place: str, target: Path) -> Path:
    """A link in the campaign."""
    link = campaign / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    return link


FILES = {
    "export/autotune-env.sh": ["export", "{}", "--format", "env_sh"],
    "export/openmpi-mca-params.conf": ["export", "{}"],
    "mine.csv": ["history", "{}", "--out", "{}/mine.csv"],
    "mine.parquet": ["history", "{}", "--out", "{}/mine.parquet"],
    "winners.csv": ["compare", "{}", "--winners", "--out", "{}/winners.csv"],
    "report.html": ["report", "{}"],
}
"""Link in a campaign → a verb that would write there."""
FOLDERS = {
    "export": ["export", "{}"],
    "out": ["export", "{}", "--out", "{}/out/deeper"],
    "verifications": ["verify", "{}", "--app", "--", "true"],
}


@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing"])
@pytest.mark.parametrize("place", FILES)
def test_no_verb_writes_through_a_link_in_place_of_a_file(place, there, campaign, home, capsys):
    link = planted(campaign, place, home / (".bashrc" if there else ".profile"))
    assert main([word.format(campaign) for word in FILES[place]]) != 0
    assert "link" in capsys.readouterr().err
    assert link.is_symlink()
    assert untouched(home)


@pytest.mark.parametrize("place", FOLDERS)
def test_no_verb_writes_below_a_link_to_a_directory(place, campaign, home, capsys):
    planted(campaign, place, home)
    assert main([word.format(campaign) for word in FOLDERS[place]]) != 0
    assert "link" in capsys.readouterr().err
    assert untouched(home)


def test_a_pipe_in_place_of_a_file_is_not_waited_for(campaign, capsys):
    os.mkfifo(campaign / "report.html")
    assert main(["report", str(campaign)]) == 2
    assert "it is no file" in capsys.readouterr().err


def test_a_journal_is_repaired_below_no_link(campaign, home, capsys):
    planted(campaign, ".repair", home)
    with (campaign / FILE).open("ab") as journal:
        journal.write(b"no event\n")
    assert main(["status", str(campaign), "--repair"]) == 3
    assert "is a link" in capsys.readouterr().err
    assert untouched(home)


@pytest.mark.parametrize("place", ["nodes.json", "nodes.json.part"])
def test_nodes_are_remembered_through_no_link(place, campaign, home):
    planted(campaign, place, home / ".bashrc")
    Nodes(campaign).write(("cn1", "cn2"))
    assert untouched(home)
    assert Nodes(campaign).read() == ("cn1", "cn2")


def test_no_job_is_submitted_below_a_link_nor_to_a_host_that_is_a_line_of_a_script(campaign, home):
    planted(campaign, "slurm", home)
    words, slurm = ("true",), Slurm(patience_s=0.0)
    with pytest.raises(JournalError, match="is a link"):
        submit(campaign / "slurm", BatchSettings(), Order("name", 1, 1, "1"), words, slurm)
    with pytest.raises(ScenarioError, match="control character"):
        submit(
            campaign / "jobs", BatchSettings(), Order("name", 1, 1, "1", ("cn1\ntouch owned",)), words, slurm
        )
    assert untouched(home)


def test_the_directory_itself_may_be_reached_by_a_link_of_the_users(campaign, tmp_path, capsys):
    (tmp_path / "mine").symlink_to(campaign)
    assert main(["export", str(tmp_path / "mine")]) == 0
    assert (campaign / "export" / "openmpi-mca-params.conf").exists()


def test_a_campaign_within_a_campaign_is_no_way_out(campaign, home):
    shutil.copy(campaign / FILE, home)
    planted(campaign, "inner", home)
    with pytest.raises(AutotuneError, match="link"):
        write_files({campaign / "inner" / "export" / "file": "x"}, parents=True)
    with pytest.raises(AutotuneError, match="link"):
        Journal(campaign / "inner")
    assert sorted(path.name for path in home.iterdir()) == [".bashrc", FILE]


def test_the_page_of_a_table_is_written_through_no_link(campaign, home, tmp_path):
    table = tmp_path / "table.csv"
    assert main(["history", str(campaign), "--out", str(table)]) == 0
    table.with_suffix(".html").symlink_to(home / ".bashrc")
    assert main(["report", str(table)]) == 2
    assert untouched(home)


@pytest.mark.parametrize("place", ["export", "export/jobs", "jobs", "jobs/2x4", "site.json", "sample.json"])
def test_no_job_of_a_site_is_made_or_removed_below_a_link(place, home, tmp_path, capsys):
    (elsewhere := home / "elsewhere" / "1x4").mkdir(parents=True)
    (elsewhere / "mine").write_text(MINE)
    root = tmp_path / "site"
    root.mkdir(mode=0o700)
    if place != "site.json":  # the site was begun
        (root / "site.json").write_text("{}\n")
    folder = place.partition(".")[2] == ""
    planted(root, place, home / "elsewhere" if folder else home / ".bashrc")
    before = {path: path.is_file() and path.read_text() for path in home.rglob("*")}
    writers = {
        "export": lambda: remove_folder(job_folder(root / "export", (1, 4)), root),
        "export/jobs": lambda: remove_folder(job_folder(root / "export", (1, 4)), root),
        "jobs": lambda: Journal(job_folder(root, (2, 4))),
        "jobs/2x4": lambda: Journal(job_folder(root, (2, 4))),
        "site.json": lambda: write_files({root / "site.json": "{}"}, parents=True, below=root),
        "sample.json": lambda: write_files({root / "sample.json": "{}"}),
    }
    with pytest.raises(AutotuneError, match="is a link"):
        writers[place]()
    assert {path: path.is_file() and path.read_text() for path in home.rglob("*")} == before


def test_a_site_that_was_unpacked_with_links_is_left_alone(home, tmp_path, capsys):
    root = tmp_path / "site"
    root.mkdir(mode=0o700)
    planted(root, "site.json", home / ".bashrc")
    words = [
        "conf=site",
        "hydra/launcher=simulated",
        "machine=hdr200_128",
        f"campaign.dir={root}",
        "site.nodes=[1]",
    ]
    assert main([*words, "--quiet"]) != 0
    assert untouched(home)


@pytest.mark.parametrize("place", ["autotune-env.sh", "deeper"])
def test_a_folder_that_is_filled_may_be_a_link_and_holds_none(place, campaign, home, tmp_path, capsys):
    """``--out`` names the folder: it is the user's, and what is in it can have been unpacked."""
    (real := tmp_path / "unpacked").mkdir()
    (tmp_path / "out").symlink_to(real)
    words = ["export", str(campaign), "--format", "env_sh", "--out"]
    assert main([*words, str(tmp_path / "out")]) == 0
    (real / "autotune-env.sh").unlink()
    planted(real, place, home / ".bashrc" if place.endswith("sh") else home)
    if place == "deeper":
        with pytest.raises(AutotuneError, match="deeper is a link"):
            write_files({real / "deeper" / "file": "x"}, parents=True, below=real)
    else:
        assert main([*words, str(tmp_path / "out")]) == 2
        assert "is a link" in capsys.readouterr().err
    assert untouched(home)


WRITERS = {
    "launches": lambda folder: launch_directory(folder, TRIAL),
    "launches/0001": lambda folder: launch_directory(folder, TRIAL),
    "made": lambda folder: make_empty(folder / "made"),
    KEPT: lambda folder: write_kept(folder, WHAT),
    NIGHTS: lambda folder: add_night(folder, Night("2026-01-01T00:00:00Z", "x")),
    "load.out": lambda folder: Background("true", folder / "load.out").__enter__(),
}
"""Link in a folder → what would write there."""


@pytest.mark.parametrize("place", WRITERS)
def test_nothing_is_written_or_made_below_a_link(place, campaign, home):
    planted(campaign, place, home if Path(place).suffix == "" else home / ".bashrc")
    with pytest.raises((AutotuneError, OSError), match=r"link|symbolic"):
        WRITERS[place](campaign)
    assert untouched(home)
