"""Plugins of other distributions: found, named where they are broken, and under the contract of ours."""

import os
import sys
from importlib.metadata import entry_points
from pathlib import Path, PurePath

import pytest

from autotune import exporters
from autotune.errors import UserError
from autotune.exporters import FORMATS, exporter, listing
from autotune.exporters.files import export_files, how_to_use
from autotune.lint.files import environment_of, kind_of, lint, unusable
from autotune.lint.traps import GROUP as LINT
from autotune.lint.traps import KINDS, _loaded
from autotune.resources.plugins import offers
from tests.golden.test_exports import DECLARED, OPENMPI, OURS
from tests.program import ran

ROOT = Path(__file__).resolve().parents[2]

GOOD = """
class Theirs:
    name = "theirs"
    summary = "theirs.txt: the environment"

    def export(self, recommendation, directory):
        return {"theirs.txt": "".join(f"{n}={v}\\n" for n, v in recommendation.provenance.env) or "\\n"}

    def use(self, recommendation, directory):
        return f"read {directory / 'theirs.txt'}"
"""


def install(folder, module, points, distribution="their-formats", group=exporters.GROUP):
    """A distribution as ``pip`` leaves it: a module, and what it declares."""
    name = distribution.replace("-", "_")
    (folder / f"{name}.py").write_text(module)
    info = folder / f"{name}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
    lines = [f"{point} = {name}{cls}" for point, cls in points.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of distributions on the path."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    _loaded.cache_clear()
    yield folder
    _loaded.cache_clear()
    for path in folder.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_what_is_installed_here_is_what_is_declared():
    """An editable install keeps its entry points of old: ``pip install --no-deps -e .`` writes them again."""
    for group, points in DECLARED["project"]["entry-points"].items():
        there = {p.name: p.value for p in entry_points(group=group) if p.dist.name == "mpi-autotune"}
        assert there == points


def test_a_format_of_another_distribution_is_one_of_the_formats(site, tmp_path):
    install(site, GOOD, {"theirs": ":Theirs"})
    assert dict(listing())["theirs"] == "theirs.txt: the environment"
    (path,) = export_files(OPENMPI, ("theirs",), tmp_path / "out")
    assert path.read_text() == "".join(f"{n}={v}\n" for n, v in OPENMPI.provenance.env)
    assert how_to_use(OPENMPI, ("theirs",), tmp_path / "out") == f"read {path}"
    with pytest.raises(UserError, match="unknown export format 'theris'") as refused:
        exporter("theris")
    assert "did you mean 'theirs'" in refused.value.hint


BROKEN = {
    "no such module": ("", ".gone:Theirs", "ModuleNotFoundError"),
    "no such class": ("", ":Theirs", "AttributeError"),
    "a module that does not end well": (
        "raise SystemError('no licence')",
        ":Theirs",
        "SystemError: no licence",
    ),
    "a module that is no Python": ("def", ":Theirs", "SyntaxError"),
    "no class": ("Theirs = 3", ":Theirs", "TypeError"),
    "no method": (GOOD.replace("def use", "def used"), ":Theirs", "has no use"),
    "an exception": (GOOD.replace("return {", "return 1 / 0 or {"), ":Theirs", "ZeroDivisionError"),
    "no mapping": (GOOD.replace("return {", "return 3, {"), ":Theirs", "AttributeError"),
    "bytes": (GOOD.replace("return {", "return {'a': b''} or {"), ":Theirs", "no plain name"),
    "a path": (
        GOOD.replace('{"theirs.txt"', '{"../theirs.txt"'),
        ":Theirs",
        "'../theirs.txt' is no plain name",
    ),
    "a path from the root": (GOOD.replace('{"theirs.txt"', '{"/theirs.txt"'), ":Theirs", "no plain name"),
    "no name at all": (GOOD, "", "TypeError"),
}


@pytest.mark.parametrize(("module", "cls", "words"), BROKEN.values(), ids=BROKEN)
def test_a_broken_format_is_named_with_its_distribution_and_breaks_nothing_else(
    module, cls, words, site, tmp_path
):
    install(site, module, {"theirs": cls})
    with pytest.raises(UserError) as refused:
        export_files(OPENMPI, ("openmpi_mca", "theirs"), tmp_path / "out")
    assert "'theirs' of their-formats 1.2" in refused.value.message
    assert words in refused.value.message
    assert "pip uninstall their-formats" in refused.value.hint
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "theirs.txt").exists()
    listed = dict(listing())
    assert set(OURS) < set(listed)
    assert all(exporter(name).summary == listed[name] for name in OURS)
    assert export_files(OPENMPI, ("openmpi_mca",), tmp_path / "out")


@pytest.mark.parametrize("name", ["openmpi_mca", "ucc_conf"])
def test_a_name_of_ours_is_nobody_elses(name, site):
    ours = type(exporter(name)), exporter(name).summary
    install(site, GOOD, {name: ":Theirs"})
    assert (type(exporter(name)), exporter(name).summary) == ours
    said = [summary for listed, summary in listing() if listed == name]
    assert said == [ours[1], f"left out: '{name}' of their-formats 1.2 is a name of autotune's own"]


def test_a_name_that_two_distributions_want_is_neithers(site):
    for distribution in ("one-format", "another-format"):
        install(site, GOOD, {"theirs": ":Theirs"}, distribution)
    with pytest.raises(UserError, match=r"more than once, by another-format 1\.2, one-format 1\.2"):
        exporter("theirs")
    assert "left out" in dict(listing())["theirs"]
    assert exporter("ucc_conf").summary


def test_a_distribution_that_lies_there_twice_is_the_first_one(site, tmp_path, monkeypatch):
    install(site, GOOD, {"theirs": ":Theirs"})
    second = tmp_path / "second"
    second.mkdir()
    install(second, GOOD.replace("summary = ", "summary = 'older ' + "), {"theirs": ":Theirs"})
    monkeypatch.setattr(sys, "path", [*sys.path, str(second)])
    assert exporter("theirs").summary == "theirs.txt: the environment"


def test_entry_points_that_cannot_be_read_are_named(site):
    install(site, GOOD, {})
    with (site / "their_formats-1.2.dist-info/entry_points.txt").open("a") as file:
        file.write("no equals sign\n")
    assert "the entry points of their-formats 1.2 cannot be read" in dict(listing())["their-formats"]
    assert exporter("ucc_conf").summary


@pytest.mark.parametrize(
    ("module", "tests", "outcome"),
    [
        (GOOD, "theirs", "4 passed"),
        (
            GOOD.replace("        return {", "        (directory / 'mine').write_text('')\n        return {"),
            "theirs and plain",
            "1 failed",
        ),
    ],
    ids=["well", "it writes by itself"],
)
def test_the_contract_is_that_of_every_format(module, tests, outcome, site):
    install(site, module, {"theirs": ":Theirs"})
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    done = ran(
        [sys.executable, "-m", "pytest", "-q", "-k", tests, "tests/contract/test_exporters.py"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert f"{outcome}, " in done.stdout.splitlines()[-1], done.stdout[-3000:]


TRAPS = """
from autotune.lint.finding import Finding
from autotune.lint.traps import Traps


class Theirs(Traps):
    prefixes = ("XYZ_",)

    def reads(self, path, first):
        return first.startswith("xyz")

    def file(self, path, text):
        yield Finding(path, 1, "MPI990", "it is never read", "leave it out")

    def environment(self, text):
        return {"XYZ_A": "1"}

    def variable(self, a):
        if a.name.startswith("XYZ_"):
            yield a.finding("MPI990", "it is deprecated", "leave it out")
"""


def test_traps_of_another_distribution_are_looked_for(site):
    install(site, TRAPS, {"xyz": ":Theirs"}, group=LINT)
    assert kind_of(PurePath("a"), "# says\nxyz 1\n") == "xyz"
    assert environment_of(PurePath("a"), "xyz 1\n") == {"XYZ_A": "1"}
    found = lint({PurePath("a"): "xyz 1\n", PurePath("a.sh"): "export XYZ_B=1 UCX_TLS=rc\n"})
    assert [(str(f.file), f.effect) for f in found] == [
        ("a", "it is never read"),
        ("a.sh", "it is deprecated"),
    ]
    assert unusable() == ()


def test_broken_traps_are_named_and_all_others_go_on(site):
    install(site, "raise SystemError('no licence')", {"xyz": ":Theirs"}, group=LINT)
    assert ["their-formats 1.2" in why for why in unusable()] == [True]
    assert lint({PurePath("ucc.conf"): "UCC_TL_UCP_TUNE=alreduce:@0\n"})


def test_a_kind_of_file_that_is_known_is_nobody_elses(site):
    install(site, TRAPS, {"mca": ":Theirs"}, group=LINT)
    assert "mca" not in offers(LINT, KINDS).found
    assert ["is a name of autotune's own" in why for why in unusable()] == [True]


def test_nothing_is_imported_before_it_is_asked_for(site):
    install(site, "raise SystemError('no licence')", {"theirs": ":Theirs"})
    assert "theirs" in offers(exporters.GROUP, FORMATS).found
    assert "their_formats" not in sys.modules
