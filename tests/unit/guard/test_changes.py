"""What an upgrade did, in words: versions, files, and variables that are set."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.guard.changes import changes
from autotune.guard.facts import Facts, VariableDescription, environment_of
from autotune.stacks.installation import Installation

OLD = {
    "UCX_RNDV_SCHEME": VariableDescription("enumerator", "auto", ("auto", "get_zcopy", "put_zcopy")),
    "UCX_TLS": VariableDescription("list", "all", about="a1"),
    "UCX_ZCOPY_THRESH": VariableDescription("bytes", "auto"),
    "UCX_SHM_DEVICES": VariableDescription("list", "all", about="b2"),
    "UCX_SEG": VariableDescription("bytes", "8k"),
}


def told(new, settings, layer="ucx"):
    old, now = (Facts(variables={layer: variables}) for variables in (OLD, new))
    return [(one.text, one.breaks) for one in changes(old, now, settings)]


def test_what_stays_is_not_told():
    assert told(OLD, {"UCX_TLS": "posix"}) == []


@pytest.mark.parametrize("value, breaks", [("get_zcopy", True), ("put_zcopy", False)])
def test_a_word_that_a_variable_lost(value, breaks):
    new = OLD | {"UCX_RNDV_SCHEME": VariableDescription("enumerator", "auto", ("auto", "put_zcopy"))}
    assert told(new, {"UCX_RNDV_SCHEME": value}) == [("UCX_RNDV_SCHEME lost get_zcopy", breaks)]


def test_a_variable_that_is_set_and_dropped_or_renamed():
    new = {k: v for k, v in OLD.items() if k != "UCX_TLS"}
    assert told(new, {"UCX_TLS": "posix"}) == [("UCX_TLS is no longer known to ucx", True)]
    renamed = new | {"UCX_TRANSPORTS": OLD["UCX_TLS"]}
    first, second = told(renamed, {"UCX_TLS": "posix"})
    assert first == ("UCX_TLS is no longer known to ucx; UCX_TRANSPORTS is", True)
    assert second == ("ucx: new: UCX_TRANSPORTS", False)


def test_an_old_name_that_a_new_version_still_reads_breaks_nothing():
    new = {k: v for k, v in OLD.items() if k != "UCX_TLS"}
    new["UCX_TRANSPORTS"] = VariableDescription("list", "all", others=("UCX_TLS",))
    assert not any(breaks for _, breaks in told(new, {"UCX_TLS": "posix"}))


def test_a_variable_that_is_read_otherwise():
    new = OLD | {"UCX_ZCOPY_THRESH": VariableDescription("integer", "16384", deprecated=True)}
    said = [text for text, _ in told(new, {"UCX_ZCOPY_THRESH": "8k"})]
    assert said == ["UCX_ZCOPY_THRESH was bytes, and is integer", "UCX_ZCOPY_THRESH is deprecated now",
                    "UCX_ZCOPY_THRESH: its default was auto, and is 16384"]  # fmt: skip


def test_defaults_of_other_variables_are_counted_but_not_those_that_never_stand_still():
    changed = {"UCX_SEG": "4k", "UCX_ZCOPY_THRESH": ""}
    new = OLD | {name: VariableDescription("bytes", default) for name, default in changed.items()}
    assert told(new, {}) == [("ucx: other defaults: UCX_SEG=8k → 4k", False)]


def test_mca_parameters_go_by_their_names_without_the_prefix():
    old = Facts(variables={"openmpi": {"pml": VariableDescription("text")}})
    said = changes(old, Facts(variables={"openmpi": {}}), {"OMPI_MCA_pml": "ucx"})
    assert [one.text for one in said] == ["pml is no longer known to openmpi"]


UPGRADES = json.loads((Path(__file__).parents[2] / "data" / "upgrades.json").read_text())
"""What wheels said of some variables: of those that came, went or changed, and of one that did not."""


def said_by(version):
    def variable(kind, default, allowed, others, deprecated, about):
        return VariableDescription(kind, default, tuple(allowed), tuple(others), deprecated, about)

    layers = version["variables"].items()
    variables = {layer: {name: variable(*one) for name, one in its.items()} for layer, its in layers}
    return Facts(version["stack"], variables=variables)


@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
@pytest.mark.parametrize("upgrade", UPGRADES)
def test_everything_that_a_real_upgrade_changed_is_named_and_nothing_else(upgrade, back):
    old, new = map(said_by, reversed(UPGRADES[upgrade]) if back else UPGRADES[upgrade])
    assert changes(old, old, {}) == changes(new, new, {}) == ()
    found = changes(old, new, {})
    assert {c.text for c in found if "→" in c.text and not c.names} == {
        f"{name}: {version} → {new.stack[name]}"
        for name, version in old.stack.items()
        if new.stack[name] != version
    }
    named = {name.partition("=")[0] for c in found for name in c.names}
    for layer, was in old.variables.items():
        now = new.variables[layer]
        both = was.keys() & now.keys()
        defaults = {n for n in both if was[n].default != now[n].default and was[n].default and now[n].default}
        assert was.keys() ^ now.keys() | defaults == named & (was.keys() | now.keys())
        set_ = changes(old, new, dict.fromkeys(was.keys() - now.keys(), "1"))
        texts = [c.text for c in set_ if c.breaks]
        aliases = {other for one in now.values() for other in one.others}
        for name in was.keys() - now.keys() - aliases:
            assert any(text.startswith(f"{name} is no longer known to {layer}") for text in texts)


def test_components_and_transports_that_went_and_came_are_named():
    old = Facts(offers={"components": "coll/tuned coll/sm", "transports of UCX": "rc posix"})
    new = Facts(offers={"components": "coll/tuned coll/han", "transports of UCX": "posix"})
    assert [(c.text, c.names) for c in changes(old, new, {})] == [
        ("components: no longer there: coll/sm", ("coll/sm",)),
        ("components: new: coll/han", ("coll/han",)),
        ("transports of UCX: no longer there: rc", ("rc",)),
    ]


def test_versions_builds_firmware_and_files():
    old = Facts({"UCX": "1.18", "MPI built with": "cc -O3 --with-ucx"}, {"firmware of mlx5_0": "20.1"},
                {"/a/libucp.so.0": "1", "/etc/x.conf": "1", "/gone": "1"})  # fmt: skip
    new = Facts({"UCX": "1.20", "MPI built with": "cc -O2 --with-ucx"}, {"firmware of mlx5_0": "20.2"},
                {"/b/libucp.so.0": "2", "/etc/x.conf": "2", "/gone": ""})  # fmt: skip
    assert [one.text for one in changes(old, new, {})] == [
        "UCX: 1.18 → 1.20",
        "MPI built with: no longer there: -O3",
        "MPI built with: new: -O2",
        "firmware of mlx5_0: 20.1 → 20.2",
        "other contents: libucp",
        "/etc/x.conf was edited",
        "/gone is gone",
    ]


def test_the_same_versions_elsewhere_are_the_same_state():
    one, other = Facts(files={"/a/libucp.so.0": "1"}), Facts(files={"/b/libucp.so.0": "1"})
    assert one.identity == other.identity != Facts(files={"/b/libucp.so.0": "2"}).identity


def test_parameter_files_that_are_new_are_named_and_another_state():
    conf, moved = "/home/a/.openmpi/mca-params.conf", "/opt/new/etc/openmpi-mca-params.conf"
    old = Facts(files={conf: ""}, parameters=(conf,))
    planted = replace(old, files={conf: "1"})
    elsewhere = Facts(files={conf: "", moved: "2"}, parameters=(conf, moved))
    assert [one.text for one in changes(old, planted, {})] == [f"{conf} is new"]
    assert [one.text for one in changes(old, elsewhere, {})] == [f"{moved} is new"]
    assert [one.text for one in changes(planted, Facts(), {})] == [f"{conf} is not read any more"]
    assert len({old.identity, planted.identity, elsewhere.identity}) == 3
    assert old.identity == Facts().identity  # one that is not there is nothing, under any home


def test_variables_and_prefixes_in_effect_are_named_and_not_their_values():
    old = Facts(environment={"prefix": "/opt/a", "UCX_TLS": "12ab", "OMPI_MCA_pml": "34cd"})
    new = Facts(environment={"prefix": "/opt/b", "UCX_TLS": "56ef", "LD_PRELOAD": "78ab"})
    assert [one.text for one in changes(old, new, {})] == [
        "prefix: /opt/a → /opt/b",
        "environment: new: LD_PRELOAD",
        "environment: no longer set: OMPI_MCA_pml",
        "environment: of another value: UCX_TLS",
    ]
    assert old.identity != new.identity
    assert old.identity == replace(old, environment={**old.environment, "prefix": "/opt/b"}).identity


def test_the_environment_is_what_libraries_read_without_its_values(monkeypatch, tmp_path):
    read = {"OMPI_MCA_my_password", "UCX_X_TOKEN", "FI_PROVIDER", "I_MPI_FABRICS", "MPIR_CVAR_X"}
    others = {"OMPI_ALLOW_RUN_AS_ROOT", "PMIX_RANK", "PATH_TO_NOTHING", "SLURM_JOB_ID"}
    for name in read | others:
        monkeypatch.setenv(name, "a-secret")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/lib")
    said = environment_of(Installation("openmpi", "5.0", tmp_path / "bin" / "mpirun", tmp_path, "x"))
    assert said["LD_LIBRARY_PATH"] == "/opt/lib"
    assert said["prefix"] == str(tmp_path.resolve())
    assert read <= said.keys()
    assert not others & said.keys()
    assert "a-secret" not in said.values()
