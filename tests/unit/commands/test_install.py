"""What the verbs around parameter files do to a home directory, and how they end."""

import os
import pty
import stat
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from autotune.cli import main
from autotune.commands import export, install
from autotune.errors import ExitCode, StackError
from autotune.exporters import user_files
from autotune.lint.verbs import lint
from autotune.recommend.recommendation import Checked, Recommendation
from autotune.space import Point
from autotune.stacks.han import handed_over
from autotune.stacks.installation import Installation
from autotune.stacks.ucx import Ucx
from tests.golden.test_exports import MPICH_BY_SIZE, OPENMPI
from tests.unit.exporters.test_install import FILES
from tests.unit.exporters.test_writing import tree

GOOD = replace(OPENMPI, provenance=replace(OPENMPI.provenance, stamp="", checked=Checked.HOLDS))
"""Measured on a real MPI, and verified."""


def home_without_mpi(tmp_path, monkeypatch):
    """Give the user a new home directory, on a machine without an MPI."""

    def nothing(*_, **__):
        raise StackError("no mpirun found")

    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.setattr(user_files, "find", nothing)
    monkeypatch.setattr(lint, "find", nothing)
    (tmp_path / "me").mkdir()
    return tmp_path / "me" / ".openmpi"


@pytest.fixture
def home(tmp_path, monkeypatch):
    recommends(monkeypatch, GOOD)
    return home_without_mpi(tmp_path, monkeypatch)


def recommends(monkeypatch, recommendation):
    """Have every campaign recommend that."""
    monkeypatch.setattr(install, "for_everybody", lambda *_: recommendation)


@pytest.mark.parametrize("words", [["install", "campaign"], ["install", "--remove"]], ids=" ".join)
@pytest.mark.parametrize("name", ["mca-params.conf", "../ucx.conf", "autotune/coll_tuned_rules.conf"])
def test_a_pipe_in_a_home_is_not_waited_for(home, words, name, capsys):
    assert main(["install", "campaign"]) == 0
    (home / name).unlink(missing_ok=True)
    os.mkfifo(home / name)
    before = tree(home)
    assert main(words) == ExitCode.MISTAKE
    assert "regular file" in capsys.readouterr().err
    assert tree(home) == before


def test_install_merges_backs_up_and_uninstall_gives_back(home, capsys):
    home.mkdir()
    conf = home / "mca-params.conf"
    conf.write_text("pml = ob1\nbtl = self\n")
    assert main(["install", "campaign"]) == 0
    text = conf.read_text()
    assert "btl = self\n" in text
    assert f"coll_tuned_dynamic_rules_filename = {home}/autotune/coll_tuned_rules.conf" in text
    assert "verified: 1.34×" in capsys.readouterr().out
    (copy,) = home.glob("mca-params.conf.2*")
    assert copy.read_text() == "pml = ob1\nbtl = self\n"
    rules = home / "autotune" / "coll_tuned_rules.conf"
    assert main(["lint", str(conf), str(rules), str(home.parent / "ucx.conf")]) == 0
    assert main(["install", "--remove"]) == 0
    assert not (home.parent / "ucx.conf").exists()
    assert conf.read_text() == "pml = ob1\nbtl = self\n"
    assert not rules.parent.exists()


def test_what_was_only_ours_goes_away(home, capsys):
    for _ in range(2):
        assert main(["install", "campaign"]) == 0
        assert main(["install", "campaign"]) == 0
        assert main(["install", "--remove"]) == 0
        assert tree(home.parent) == {}
    capsys.readouterr()
    for words in (["install", "--remove"], ["uninstall"]):
        assert main(words) == ExitCode.MISTAKE
        assert "holds nothing of autotune's\n  nothing was changed" in capsys.readouterr().err


def test_rules_of_han_come_with_the_parameters_that_point_to_them_and_go_with_them(home, monkeypatch):
    recommends(monkeypatch, replace(GOOD, rules=tuple(map(handed_over, GOOD.rules))))
    assert main(["install", "campaign", "--yes"]) == 0
    file = home / "autotune" / "coll_han_rules.conf"
    assert f"coll_han_dynamic_rules_filename = {file}" in (home / "mca-params.conf").read_text()
    assert " tuned" in file.read_text()
    recommends(monkeypatch, GOOD)
    assert main(["install", "campaign", "--yes"]) == 0
    assert not file.exists()
    assert main(["install", "--remove"]) == 0
    assert tree(home.parent) == {}


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(conf=FILES, ucx=FILES, rules=FILES)
def test_whatever_was_there_is_there_again_with_its_mode(home, conf, ucx, rules):
    before = {
        home / "mca-params.conf": conf,
        home.parent / "ucx.conf": ucx,
        home / "coll_tuned_rules.conf": rules,
    }
    home.mkdir(exist_ok=True)
    for path, content in before.items():
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
            path.chmod(0o640)
    assert main(["install", "campaign"]) == 0
    assert main(["install", "--remove"]) == 0
    for path, content in before.items():
        assert (path.read_bytes() if path.exists() else None) == content
        if content is not None:
            assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_what_was_edited_since_stays_and_is_told(home, capsys):
    home.mkdir()
    conf, rules = home / "mca-params.conf", home / "autotune" / "coll_tuned_rules.conf"
    conf.write_bytes(b"btl = self")
    assert main(["install", "campaign"]) == 0
    conf.write_bytes(conf.read_bytes() + b"# mine\r\n")
    rules.write_text("mine")
    capsys.readouterr()
    assert main(["install", "--remove"]) == 0
    out = capsys.readouterr().out
    assert conf.read_bytes() == b"btl = self\n# mine\r\n"
    assert f"{conf} was edited since" in out
    assert f"{home.parent / 'ucx.conf'}: as it was before" in out
    (kept,) = rules.parent.iterdir()
    assert kept.read_text() == "mine"
    assert f"{rules} was edited since: it was kept as {kept}" in out


def test_a_second_campaign_leaves_nothing_of_the_first(home, monkeypatch, capsys):
    assert main(["install", "campaign"]) == 0
    env = (("OMPI_MCA_pml", "ob1"),)
    plain = Recommendation(Point(), (), provenance=replace(GOOD.provenance, env=env, placement=()))
    recommends(monkeypatch, plain)
    before = tree(home.parent)
    assert main(["install", "campaign"]) == 1
    assert "they replace others, verified: 1.34×" in capsys.readouterr().err
    assert tree(home.parent) == before
    assert main(["install", "campaign", "--yes"]) == 0
    assert not (home.parent / "ucx.conf").exists()
    assert not (home / "autotune" / "coll_tuned_rules.conf").exists()
    assert "coll_tuned" not in (home / "mca-params.conf").read_text()


DOUBTFUL = {
    "these results are SIMULATED": replace(GOOD, provenance=replace(GOOD.provenance, stamp="SIMULATED (m)")),
    "these results are REPLAYED": replace(GOOD, provenance=replace(GOOD.provenance, stamp="REPLAYED (t)")),
    "not verified on fresh launches: UNVERIFIED": replace(
        GOOD, provenance=replace(GOOD.provenance, verified="UNVERIFIED", checked=Checked.NOT)
    ),
}


@pytest.fixture(params=["install", "export"])
def into_place(request, home, tmp_path, monkeypatch):
    """A verb that puts files in place for a campaign, and a path that it writes."""
    monkeypatch.setattr(export, "for_everybody", lambda *_: install.for_everybody())
    conf, prefix = home / "mca-params.conf", tmp_path / "opt"
    options = ("--prefix", str(prefix)) if request.param == "export" else ()

    def run(*words, directory="campaign"):
        return main([request.param, str(directory), *options, *words])

    return run, prefix / "modulefiles" if options else conf


@pytest.mark.parametrize("why", DOUBTFUL)
def test_nothing_doubtful_is_put_in_place_without_a_yes(into_place, why, monkeypatch, capsys):
    run, place = into_place
    recommends(monkeypatch, DOUBTFUL[why])
    assert run() == 1
    said = capsys.readouterr().err
    assert why in said
    assert "nothing was written; --yes" in said
    assert not place.parent.exists()
    assert run("--yes") == 0
    assert why in capsys.readouterr().out
    assert place.exists()


def test_files_that_were_refuted_are_asked_about_too(into_place, tmp_path, capsys):
    run, place = into_place
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "proof.json").write_text('{"holds": false}')
    assert run(directory=tmp_path) == 1
    assert "did not do what they say" in capsys.readouterr().err
    assert not place.exists()


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("Yes\n", 0), ("n\n", 1), ("\n", 1), ("\x04", 1)])
def test_on_a_terminal_one_is_asked(home, monkeypatch, capsys, answer, code):
    recommends(monkeypatch, DOUBTFUL["these results are SIMULATED"])
    keyboard, terminal = pty.openpty()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        os.write(keyboard, answer.encode())
        assert main(["install", "campaign"]) == code
    os.close(keyboard)
    assert "install them all the same? [y/N]" in capsys.readouterr().out
    assert home.exists() == (code == 0)


DEFAULTS = replace(GOOD.provenance, env=(), placement=(), checked=Checked.REFUSED)
OF_MPICH = replace(MPICH_BY_SIZE, provenance=replace(GOOD.provenance, family="mpich"))


@pytest.mark.parametrize(
    ("recommendation", "words", "code", "said"),
    [
        (Recommendation(Point(), (), provenance=DEFAULTS), (), ExitCode.WELL, "nothing to install"),
        (OF_MPICH, (), ExitCode.MISTAKE, "was measured on MPICH"),
        (GOOD, ("--site",), ExitCode.MISTAKE, "no mpirun found"),
    ],
)
def test_where_there_is_nothing_to_install_nothing_is_written(
    home, monkeypatch, capsys, recommendation, words, code, said
):
    recommends(monkeypatch, recommendation)
    assert main(["install", *words, "campaign"]) == code
    assert said in "".join(capsys.readouterr())
    assert not home.exists()


def test_what_is_in_the_way_is_named_and_nothing_is_half_done(home, capsys):
    (home / "mca-params.conf").mkdir(parents=True)
    before = tree(home.parent)
    assert main(["install", "campaign"]) == 2
    assert f"{home / 'mca-params.conf'} cannot be read: Is a directory" in capsys.readouterr().err
    assert main(["install", "--remove"]) == 2
    assert tree(home.parent) == before
    (home / "mca-params.conf").rmdir()
    (home.parent / "ucx.conf").symlink_to("/no/such/place")
    before = tree(home.parent)
    assert main(["install", "campaign"]) == 2
    assert "it is a link to /no/such/place, which does not exist" in capsys.readouterr().err
    assert tree(home.parent) == before


def test_a_link_of_the_users_stays_a_link(home, tmp_path):
    home.mkdir()
    (tmp_path / "dotfile").write_bytes(b"pml = \xfc")
    (home / "mca-params.conf").symlink_to(tmp_path / "dotfile")
    assert main(["install", "campaign"]) == 0
    assert "autotune" in (tmp_path / "dotfile").read_text("latin-1")
    assert main(["install", "--remove"]) == 0
    assert (home / "mca-params.conf").is_symlink()
    assert (tmp_path / "dotfile").read_bytes() == b"pml = \xfc"


def test_lint_prints_file_line_and_remedy_and_leaves_folders_out(tmp_path, capsys):
    bad, folder = tmp_path / "bad.conf", tmp_path / "proof"
    bad.write_text("pml = 'ucx'\n")
    folder.mkdir()
    assert main(["lint", str(bad), str(folder)]) == 1
    said = capsys.readouterr()
    assert f"{bad}:1: MPI205 quotes become part of the value" in said.out
    assert "without quotes" in said.out
    assert "1 finding in 1 file(s) for openmpi5" in said.out
    assert said.err == f"left out: {folder} is a folder\n"


def test_lint_of_what_is_not_there_or_not_known_is_refused(tmp_path, capsys):
    (good := tmp_path / "good.conf").write_text("pml = ucx\n")
    for words, message in (
        ([tmp_path / "none"], "cannot be read"),
        ([tmp_path], f"{tmp_path} is a folder"),
        ([good, "--mpi", "openmpi3"], "openmpi4, openmpi5, openmpi6"),
    ):
        assert main(["lint", *map(str, words)]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("openmpi", "ucx", "said"),
    [
        ("5.0.11", "1.20.1", ""),
        ("4.1.8", "1.20.1", "they were measured on Open MPI 5.0.11, and 4.1.8 is here"),
        ("5.0.11", "1.13.1", "they were measured over UCX 1.20.1, and 1.13.1 is here"),
    ],
)
def test_parameters_of_other_versions_are_asked_about(home, monkeypatch, capsys, openmpi, ucx, said):
    """No parameter file can ask which version reads it, as a script or a module does."""
    library, mpirun = home.parent / "mpi" / "lib" / "libmpi.so", home.parent / "mpi" / "bin" / "mpirun"
    here = Installation("openmpi", openmpi, mpirun, library, "PATH")
    (library.parent / "openmpi").mkdir(parents=True)
    (library.parent / "openmpi" / "libucp.so.0").touch()
    monkeypatch.setattr(user_files, "find", lambda **_: here)
    monkeypatch.setattr(user_files, "detect", lambda _: Ucx(ucx, (), ()))
    assert main(["install", "campaign"]) == (1 if said else 0)
    told = capsys.readouterr()
    assert said in told.err
    assert ("mca-params.conf: " in told.out) is not bool(said)
    if not said:
        assert f"UCX's: {library.parent / 'etc' / 'ucx' / 'ucx.conf'} (not written)" in told.out


@pytest.fixture
def site(home, monkeypatch):
    """The parameter files of an Open MPI for everybody, below a path with blanks."""
    prefix = home.parent / "opt, it's" / "open mpi"
    here = Installation("openmpi", "5.0.11", prefix / "bin/mpirun", prefix / "lib/libmpi.so.40", "site")
    (prefix / "lib" / "openmpi").mkdir(parents=True)
    (prefix / "lib" / "openmpi" / "libucp.so.0").touch()
    (prefix / "etc").mkdir()
    (prefix / "etc" / "openmpi-mca-params.conf").write_bytes(b"# the site's\npml = ob1\nbtl_\xfc = 1")
    monkeypatch.setattr(user_files, "find", lambda **_: here)
    monkeypatch.setattr(user_files, "detect", lambda _: Ucx("1.20.1", (), ()))
    return prefix


@pytest.mark.parametrize("mask", [0o077, 0o777])
def test_a_site_has_blocks_that_all_can_read_and_comes_back_byte_by_byte(home, site, capsys, mask):
    conf, rules = (
        site / "etc" / name for name in ("openmpi-mca-params.conf", "autotune/coll_tuned_rules.conf")
    )
    conf.chmod(0o664)
    ucx, before = site / "lib/etc/ucx/ucx.conf", tree(site)
    mine = os.umask(mask)
    try:
        assert main(["install", "--site", "campaign"]) == 0
    finally:
        os.umask(mine)
    said, text = capsys.readouterr().out, conf.read_bytes()
    assert f"{conf}: changes\n  -pml = ob1\n  +pml = ucx\n" in said
    assert f"{ucx}: is new\n" in said
    assert "install --remove --site" in said
    assert b"\nbtl_\xfc = 1\n" in text
    assert f"coll_tuned_dynamic_rules_filename = {rules}\n".encode() in text
    assert b"UCX_TLS=self,sm,rc\n" in ucx.read_bytes()
    (copy,) = conf.parent.glob(f"{conf.name}.2*")
    assert copy.read_bytes() == before["etc/openmpi-mca-params.conf"][0]
    copy.unlink()
    assert [stat.S_IMODE(p.stat().st_mode) for p in (conf, ucx, rules)] == [0o664, 0o644, 0o644]
    assert {stat.S_IMODE(p.parent.stat().st_mode) for p in (rules, ucx, ucx.parent)} == {0o755}
    assert not home.exists()
    assert main(["lint", str(rules), str(ucx)]) == 0
    made = tree(site)
    assert main(["install", "--site", "campaign"]) == 0
    assert tree(site) == made
    assert main(["install", "--remove"]) == 2  # the user's own files hold nothing
    assert main(["install", "--remove", "--site"]) == 0
    assert tree(site) == before
    assert main(["install", "--remove", "--site"]) == 2


def test_a_site_is_asked_for_what_is_not_verified_and_keeps_its_files(site, monkeypatch, capsys):
    recommends(monkeypatch, DOUBTFUL["not verified on fresh launches: UNVERIFIED"])
    before = tree(site)
    assert main(["install", "--site", "campaign"]) == 1
    said = capsys.readouterr()
    assert "nothing was written; --yes" in said.err
    assert "  +pml = ucx\n" in said.out
    assert tree(site) == before
    assert main(["install", "--site", "--yes", "campaign"]) == 0
    made = tree(site)
    assert main(["install", "--site", "campaign"]) == 0  # nothing changes, so that nothing is asked
    assert tree(site) == made


def test_ucx_of_a_site_that_lies_elsewhere_is_said_before_anything_is_written(site, capsys):
    (site / "lib" / "openmpi" / "libucp.so.0").unlink()
    before = tree(site)
    assert main(["install", "--site", "campaign"]) == 2
    assert "UCX's settings (UCX_TLS, UCX_RNDV_THRESH) have no known place" in capsys.readouterr().err
    assert tree(site) == before
