"""The parameter file, its rules and the environment script say the same, and never too much."""

from pathlib import Path

import pytest

from autotune.errors import UserError
from autotune.exporters import exporter, listing
from autotune.exporters.mpich import MpichSelection
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.space import Point
from tests.golden.test_exports import OURS, SMALL_TREE, SUBJECTS

SITE = Path("/site/tuning")
RULES = (
    Rule("allreduce", 2, 0, Point()),
    Rule("allreduce", 2, 4096, Point.of({"algorithm": "ring", "segsize": 0})),
)


def recommendation(rules=RULES, **provenance):
    env = {"OMPI_MCA_pml": "ucx", "OMPI_MCA_coll_tuned_use_dynamic_rules": "1", "UCX_TLS": "self,posix"}
    provenance = {"campaign": "allreduce_local", "env": tuple(env.items()), "ranks": 2} | provenance
    return Recommendation(Point(), rules, provenance=Provenance(**provenance))


def assignments(text):
    pairs = (line.partition(" = ") for line in text.splitlines() if line and not line.startswith("#"))
    return {key: value for key, _, value in pairs}


def test_the_parameter_file_points_to_the_rules_by_their_absolute_path():
    files = exporter("openmpi_mca").export(recommendation(), SITE)
    assert assignments(files["openmpi-mca-params.conf"]) == {
        "pml": "ucx",
        "coll_tuned_use_dynamic_rules": "1",
        "coll_tuned_dynamic_rules_filename": "/site/tuning/coll_tuned_rules.conf",
    }
    assert "\nUCX_TLS=self,posix\n" in files["ucx.conf"]
    assert "4096 4 0 0  # ring" in files["coll_tuned_rules.conf"]


FORCED = {"coll_tuned_use_dynamic_rules": "1", "coll_tuned_allreduce_algorithm": "4"}


@pytest.mark.parametrize(
    ("rules", "env", "names"),
    [
        ((), {"pml": "ucx", "coll_tuned_use_dynamic_rules": "1"}, ["pml"]),
        (RULES, FORCED, ["coll_tuned_use_dynamic_rules", "coll_tuned_dynamic_rules_filename"]),
        ((), FORCED, list(FORCED)),
    ],
    ids=["nothing dynamic without rules", "rules replace a forced algorithm", "which else keeps its switch"],
)
def test_either_rules_or_a_forced_algorithm_is_dynamic(rules, env, names):
    made = recommendation(rules, env=tuple((f"OMPI_MCA_{name}", value) for name, value in env.items()))
    files = exporter("openmpi_mca").export(made, SITE)
    assert list(assignments(files["openmpi-mca-params.conf"])) == names
    assert ("coll_tuned_rules.conf" in files) is bool(rules)


def test_a_forced_algorithm_of_another_collective_is_refused_beside_rules():
    env = (("OMPI_MCA_coll_tuned_bcast_algorithm", "6"),)
    with pytest.raises(UserError, match="coll_tuned_bcast_algorithm=6"):
        exporter("openmpi_mca").export(recommendation(env=env), SITE)


@pytest.mark.parametrize("value", ["a\nb", " a", "a "])
def test_a_value_that_a_parameter_file_cannot_hold_is_refused(value):
    with pytest.raises(UserError, match="UCX_TLS"):
        exporter("openmpi_mca").export(recommendation(env=(("UCX_TLS", value),)), SITE)


def test_the_list_separator_cannot_be_part_of_a_value():
    env = (("UCX_X", "a;b"),)
    with pytest.raises(UserError, match="semicolon"):
        exporter("openmpi_mca_list").export(recommendation(env=env), SITE)
    script = exporter("env_sh").export(recommendation(env=env), SITE)["autotune-env.sh"]
    assert "export UCX_X='a;b'" in script


@pytest.mark.parametrize("name", [name for name in OURS if name != "openmpi_mca_list"])
def test_no_other_format_sets_the_list_that_overrides_what_users_export(name):
    made = MpichSelection(lambda: dict(SMALL_TREE)) if name == "mpich_json" else exporter(name)
    for text in made.export(SUBJECTS[name], SITE).values():
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        assert "mca_base_env_list" not in "\n".join(lines)


def test_the_list_of_formats_names_each_with_a_summary():
    listed = dict(listing())
    assert set(OURS) <= set(listed)
    assert all(exporter(name).summary == listed[name] for name in OURS)


def test_an_unknown_format_is_refused_with_a_guess():
    with pytest.raises(UserError, match="openmpi_mac") as caught:
        exporter("openmpi_mac")
    assert "did you mean 'openmpi_mca'?" in caught.value.hint


HANDED = (
    Rule("allreduce", 7, 0, Point()),
    Rule("allreduce", 8, 4, Point.of({"component": "tuned"})),
    Rule("allreduce", 8, 1024, Point.of({"component": "tuned", "algorithm": "ring"})),
    Rule("allreduce", 8, 2049, Point()),
    Rule("allreduce", 9, 0, Point()),
)


@pytest.mark.parametrize(
    "name", ["openmpi_mca", "openmpi_mca_list", "env_sh", "tune", "coll_tuned", "han_rules"]
)
def test_calls_that_han_hands_over_are_in_a_file_of_its_own_that_all_formats_point_to(name, tmp_path):
    made = exporter(name)
    files = made.export(recommendation(HANDED), tmp_path)
    rows = [line.partition("#")[0].strip() for line in files["coll_han_rules.conf"].splitlines()]
    assert rows[rows.index("8") :][:6] == ["8", "3", "0 han", "4 tuned", "2049 han", "9"]
    assert str(tmp_path / "coll_han_rules.conf") in "".join(files.values()) + made.use(
        recommendation(HANDED), tmp_path
    )


def test_the_proof_names_an_algorithm_where_han_hands_over_to_the_librarys_own_choice(tmp_path):
    recipe = exporter("openmpi_mca").recipe(recommendation(HANDED), tmp_path, tmp_path / "proof")
    assert [recipe.covers(("allreduce", 8, size)) for size in (8, 1024, 4096)] == [True, True, False]
    refused = recipe.invalid(0)["coll_tuned_rules.conf"]
    assert "4 99 0 0" in refused
    assert "1024 99 0 0" in refused
