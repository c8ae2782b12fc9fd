"""Each trap is planted once and found, with its line; what is right is left alone."""

from dataclasses import replace
from pathlib import PurePath

import pytest

from autotune.errors import UserError
from autotune.exporters import exporter
from autotune.lint.files import kind_of, lint
from autotune.lint.rules import rules_file
from autotune.lint.verbs.lint import measured_on
from autotune.stacks.classic_rules import entries, read
from tests.golden.test_exports import OPENMPI, SITE

GOOD = "1\n2\n2\n2\n2\n0 3 0 0\n4096 4 0 0\n4\n1\n0 0 0 0\n"
ON = "coll_tuned_use_dynamic_rules = 1\ncoll_han_priority = 0\n"


def found(text, mpi="openmpi5", name="x.conf", **options):
    return [(f.line, f.effect) for f in lint({PurePath(name): text}, mpi, **options)]


RULES = [
    ("first row not 0", "1\n2\n1\n2\n1\n8 3 0 0\n", 6, "silently ignored"),
    ("unsorted rows", "1\n2\n1\n2\n3\n0 3 0 0\n4096 4 0 0\n64 1 0 0\n", 8, "never used"),
    ("unsorted communicators", "1\n2\n2\n8\n1\n0 3 0 0\n4\n1\n0 4 0 0\n", 7, "never used"),
    ("five columns, no header", "1\n2\n1\n2\n2\n0 3 0 0 0\n4096 4 0 0 0\n", 6, "version header"),
    ("truncated", "1\n2\n1\n2\n3\n0 3 0 0\n", 6, "the file ends"),
    ("too long", "1\n2\n1\n2\n1\n0 3 0 0\n4096 4 0 0\n", 7, "follows the last row"),
    ("names", "1\nallreduce\n1\n2\n1\n0 3 0 0\n", 2, "letters are skipped"),
    ("units", "1\n2\n1\n2\n2\n0 3 0 0\n64k 4 0 0\n", 7, "letters are skipped"),
    ("octal", "1\n2\n1\n2\n2\n0 3 0 0\n010 4 0 0\n", 7, "base 8"),
    ("comment before the header", "# mine\nrule-file-version-2\n1\n2\n1\n2\n1\n0 3 0 0\n", 2, "first line"),
    ("unknown algorithm", "1\n2\n1\n2\n1\n0 99 0 0\n", 6, "MPI_ERR_ARG"),
    ("unknown collective", "1\n17\n1\n2\n1\n0 3 0 0\n", 2, "no collective 17"),
    ("collective without a choice", "1\n10\n1\n2\n1\n0 1 0 0\n", 2, "no algorithms for gatherv"),
    ("collective twice", "2\n2\n1\n2\n1\n0 3 0 0\n2\n1\n2\n1\n0 4 0 0\n", 7, "comes twice"),
    ("scatter by size", "1\n15\n1\n2\n2\n0 1 0 0\n64 2 0 0\n", 5, "deadlock"),
    ("scan by size", "1\n14\n1\n2\n2\n0 1 0 0\n64 2 0 0\n", 5, "not looked up by its message size"),
    ("two_proc without a fence", "1\n3\n1\n2\n1\n0 5 0 0\n", 6, "MPI_ERR_UNSUPPORTED_OPERATION"),
    ("chain without fan-out", "1\n7\n1\n2\n1\n0 2 0 8192\n", 6, "pipeline"),
    ("negative", "1\n2\n1\n2\n1\n0 -3 0 0\n", 6, "-3"),
    ("empty", "# nothing\n1", 2, "the file ends"),
    ("json", '{"rule_file_version": 3}', 1, "reads no JSON"),
    ("segments without any", "1\n2\n1\n2\n1\n0 3 0 65536\n", 6, "has no segments"),
]


@pytest.mark.parametrize(("text", "line", "words"), [r[1:] for r in RULES], ids=[r[0] for r in RULES])
def test_a_trap_in_a_rules_file(text, line, words):
    assert any(at == line and words in effect for at, effect in found(text)), found(text)


TWICE = "2\n2\n2\n2\n{}\n0 3 0 0\n4096 4 0 0\n8\n2\n0 3 0 0\n4096 4 0 0\n7\n1\n2\n1\n0 6 0 0\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [(TWICE.format(3), 5), (TWICE.format(1), 7), (TWICE.replace("\n8\n2\n", "\n8\n3\n").format(2), 9)],
)
def test_a_wrong_count_of_rows_is_one_finding(text, line):
    ((at, effect),) = found(text)
    assert at == line
    assert "wrong count" in effect


def test_numbers_may_stand_on_lines_of_their_own():
    assert found(TWICE.format(2)) == []
    assert found(TWICE.format(2).replace(" ", "\n")) == []


def test_a_sound_rules_file_is_left_alone():
    assert found(GOOD) == []
    assert found("rule-file-version-2\n" + GOOD.replace("0 3 0 0", "0 3 0 0 0")) == []
    assert found("1\n3\n2\n2\n1\n0 5 0 0\n3\n1\n0 0 0 0\n") == []


def test_the_second_format_is_newer_than_the_first_releases():
    text = "rule-file-version-2\n" + GOOD
    assert "before 4.1.8 takes the number" in found(text, "openmpi4")[0][1]

    def here(release):
        return [f.effect for f in rules_file(PurePath("r"), text, (5, 0), release)]

    assert here((5, 0, 7)) == []
    assert "before 5.0.7" in here((5, 0, 6))[0]


def test_numbers_are_those_of_c():
    assert [e.comm_size for e in entries("1\n2\n1\n0x10\n1\n0 3 0 0\n")["allreduce"]] == [16]
    assert read("1\n2\n1\n2\n1\n0\n3\n0\n08\n").unread_line == 9  # 0, and 8


def test_versions_know_different_algorithms():
    sparbit = "1\n0\n1\n2\n1\n0 7 0 0\n"
    assert found(sparbit) == []
    assert "no algorithm 7" in found(sparbit, "openmpi4")[0][1]


def test_classic_files_are_read_wrong_by_open_mpi_6_and_json_is_judged_there():
    assert "shifted" in found(GOOD, "openmpi6")[0][1]
    document = exporter("coll_tuned_json").export(OPENMPI, SITE)["coll_tuned_rules.json"]
    assert found(document, "openmpi6") == []
    assert "disabled" in found(document.replace('"segmented_ring"', '"segmented"'), "openmpi6")[0][1]
    assert "no collective 'alreduce'" in found(document.replace('allreduce"', 'alreduce"'), "openmpi6")[0][1]
    assert "no JSON" in found(document[:-5], "openmpi6")[0][1]


PARAMETERS = [
    ("quotes", "pml = 'ucx'\n", 1, "quotes become part"),
    ("trailing comment", "pml = ucx # fast\n", 1, "becomes part of it"),
    ("no assignment", "pml ucx\n", 1, "skipped"),
    ("twice", "pml = ucx\npml = ob1\n", 2, "already set in line 1"),
    ("prefix", "OMPI_MCA_pml = ucx\n", 1, "names no parameter"),
    ("variable", "pml = ucx\nUCX_TLS = rc\n", 2, "environment variable"),
    ("no switch", "coll_tuned_allreduce_algorithm = 4\ncoll = ^han\n", 1, "without coll_tuned_use_dynamic"),
    ("switched off", "coll_tuned_use_dynamic_rules = 0\ncoll_tuned_bcast_algorithm = 6\n", 1, "silently"),
    ("misspelt", "coll_tuned_use_dynamic_rule = 1\n", 1, "no parameter"),
    ("unknown id", ON + "coll_tuned_allreduce_algorithm = 7\n", 3, "the default runs"),
    ("unknown name", ON + "coll_tuned_allreduce_algorithm = linear\n", 3, "the default runs"),
    (
        "file and forced",
        ON + "coll_tuned_dynamic_rules_filename = /r\ncoll_tuned_bcast_algorithm = 1\n",
        4,
        "beside",
    ),
    ("relative", ON + "coll_tuned_dynamic_rules_filename = rules.conf\n", 3, "working directory"),
    ("home", ON + "coll_tuned_dynamic_rules_filename = ~/rules.conf\n", 3, "working directory"),
    ("han above", "coll_tuned_use_dynamic_rules = 1\ncoll_tuned_bcast_algorithm = 6\n", 2, "coll_han"),
    ("ucx unused", "pml = ob1\nmca_base_env_list = UCX_TLS=rc\n", 2, "change nothing"),
    ("half a threshold", "mca_base_env_list = UCX_RNDV_THRESH=inter:64k\n", 1, "aborts"),
    ("misspelt variable", "mca_base_env_list = UCX_RNDV_TRESH=64k\n", 1, "UCX knows no UCX_RNDV_TRESH"),
    ("unknown transport", "mca_base_env_list = UCX_TLS=self,infiniband\n", 1, "no transport infiniband"),
    ("variables alone", "UCX_TLS = rc\nUCX_RNDV_THRESH = 64k\n", 2, "environment variable"),
    ("carriage return", "coll = ^han\npml = ucx\r\n", 2, "carriage return"),
    ("misspelt, of no component", "mpi_yeild_when_idle = 1\n", 1, "no parameter mpi_yeild_when_idle"),
    ("letters swapped", "mca_base_env_list = UCX_TSL=rc\n", 1, "UCX knows no UCX_TSL"),
    ("places where there are none", "mca_base_env_list = UCX_ZCOPY_THRESH=intra:1k,inter:2k\n", 1, "neither"),
    (
        "segments",
        ON + "coll_tuned_bcast_algorithm = 1\ncoll_tuned_bcast_algorithm_segmentsize = 64k\n",
        4,
        "no seg",
    ),
    ("list", "mca_base_env_list = UCX_TLS=rc\n", 1, "overrides what users export"),
]


@pytest.mark.parametrize(
    ("text", "line", "words"), [p[1:] for p in PARAMETERS], ids=[p[0] for p in PARAMETERS]
)
def test_a_trap_in_a_parameter_file(text, line, words):
    assert any(at == line and words in effect for at, effect in found(text)), found(text)


TUNE = [
    ("indented", "--mca pml ucx\n --mca btl self\n", 2, "silently dropped"),
    ("one dash", "-mca pml ucx\n", 1, "aborts"),
    ("assignment", "--mca pml ucx\npml = ucx\n", 2, "aborts"),
    ("twice", "--mca pml ucx\n--mca pml ob1\n", 2, "already set"),
    ("no newline", "--mca pml ucx", 1, "last character"),
    ("space", "-x UCX_TLS=self, rc\n", 1, "first space"),
    ("quotes", "--mca pml 'ucx'\n", 1, "quotes"),
    ("comment", "--mca pml ucx # fast\n", 1, "comment"),
    ("no switch", "--mca coll_tuned_bcast_algorithm 6\n--mca coll ^han\n", 1, "without"),
    ("carriage return", "--mca pml ucx\r\n", 1, "carriage return"),
]


@pytest.mark.parametrize(("text", "line", "words"), [t[1:] for t in TUNE], ids=[t[0] for t in TUNE])
def test_a_trap_in_a_file_for_tune(text, line, words):
    assert any(at == line and words in effect for at, effect in found(text)), found(text)


UCX = [
    ("export", "export UCX_TLS=rc\n", 1, "not a shell"),
    ("foreign", "UCX_TLS=rc\nOMPI_MCA_pml=ucx\n", 2, "not a variable of UCX"),
    ("nothing assigned", "UCX_TLS rc\n", 1, "assigns nothing"),
    ("quotes", 'UCX_TLS="rc"\n', 1, "quotes"),
    ("half a threshold", "UCX_RNDV_THRESH=intra:64k\n", 1, "aborts"),
    ("comment", "UCX_TLS=rc # fast\n", 1, "becomes part of it"),
]


@pytest.mark.parametrize(("text", "line", "words"), [u[1:] for u in UCX], ids=[u[0] for u in UCX])
def test_a_trap_in_ucx_conf(text, line, words):
    assert any(at == line and words in effect for at, effect in found(text, name="ucx.conf"))


@pytest.mark.parametrize("value", ["intra:64k,inter:1m", "64k,inter:1m", "inter:1m,64k", "64k", "auto"])
def test_thresholds_that_ucx_takes(value):
    assert found(f"UCX_RNDV_THRESH={value}\r\n", name="ucx.conf") == []


def test_the_list_of_variables_is_told_by_version_and_kind_of_file():
    def effects(text, mpi):
        return [effect for _, effect in found(text, mpi) if effect.startswith("mca_base_env_list")]

    (only,) = effects("mca_base_env_list = UCX_TLS=rc\n", "openmpi4")
    assert "mpirun -x aborts" in only
    assert "overrides" in only
    assert effects("--mca mca_base_env_list UCX_TLS=rc\n", "openmpi5") == []
    (only,) = effects("--mca mca_base_env_list UCX_TLS=rc\n", "openmpi4")
    assert "mpirun -x aborts" in only
    assert effects("-x UCX_TLS=rc\n", "openmpi4") == effects("-x UCX_TLS=rc\n", "openmpi5") == []


@pytest.mark.parametrize("name", ["json", "summary"])
def test_our_own_documents_are_no_parameter_files(name):
    files = {PurePath(file): text for file, text in exporter(name).export(OPENMPI, SITE).items()}
    assert lint(files) == ()
    assert lint({PurePath("proof.json"): '{"applied": true, "refused": []}\n'}) == ()


def test_a_missing_rules_file_is_found_where_it_can_be_looked_for():
    text = ON + "coll_tuned_dynamic_rules_filename = /no/such\n"
    assert found(text) == []
    assert "missing" in found(text, exists=lambda path: False)[0][1]
    assert found(text, exists=lambda path: True) == []


def test_the_stack_s_own_list_of_names_finds_every_misspelt_parameter():
    known = {"pml", "pml_ucx_priority", "btl_tcp_if_include"}
    assert "btl_tcp_if_inlcude" in found("btl_tcp_if_inlcude = eth0\n", parameter_names=known)[0][1]
    assert found("plm_slurm_args = x\n", "openmpi4", parameter_names=known) == []  # the runtime's


def test_a_variable_that_is_not_exported_is_found_in_a_script():
    assert "not exported" in found("export UCX_TLS=rc\nOMPI_MCA_pml=ucx\nmpirun ./a\n", name="env.sh")[0][1]


def test_files_are_judged_together():
    rules, conf = PurePath("/s/rules"), PurePath("/s/mca.conf")
    files = {conf: "coll_tuned_dynamic_rules_filename = /s/rules\ncoll=^han\n", rules: GOOD}
    (only,) = lint(files)
    assert only.file == conf
    assert "without coll_tuned_use_dynamic_rules" in only.effect
    assert lint(files | {PurePath("/s/more.conf"): "coll_tuned_use_dynamic_rules = 1\n"}) == ()


@pytest.mark.parametrize(
    "name",
    ["openmpi_mca", "coll_tuned", "tune", "ucx_conf", "env_sh", "env_csh", "slurm", "lmod", "modulefile"],
)
@pytest.mark.parametrize("mpi", ["openmpi4", "openmpi5"])
def test_what_is_exported_has_no_findings(name, mpi):
    files = {PurePath(SITE / file): text for file, text in exporter(name).export(OPENMPI, SITE).items()}
    assert lint(files, mpi) == ()


def test_what_is_exported_on_request_has_the_finding_that_it_names():
    exported = exporter("openmpi_mca_list").export(OPENMPI, SITE)
    (only,) = lint({PurePath(SITE / file): text for file, text in exported.items()})
    assert only.effect.startswith("mca_base_env_list")


@pytest.mark.parametrize("name", ["openmpi_mca", "tune", "env_sh", "slurm"])
def test_on_one_node_han_steps_aside_by_itself(name):
    def effects(measured, nodes=None):
        env = tuple(pair for pair in OPENMPI.provenance.env if pair[0] != "OMPI_MCA_coll_han_priority")
        source = replace(OPENMPI.provenance, nodes=measured, env=env)
        files = exporter(name).export(replace(OPENMPI, provenance=source), SITE)
        nodes = nodes or measured_on(files.values())
        found = lint({PurePath(SITE / f): text for f, text in files.items()}, nodes=nodes)
        return [f.effect for f in found]

    assert effects(1) == effects(8, nodes=1) == []
    for several in (effects(8), effects(1, nodes=2)):
        assert len(several) == 1
        assert several[0].startswith("coll_han")


def test_an_unknown_stack_is_refused():
    with pytest.raises(UserError, match="openmpi7"):
        lint({}, "openmpi7")


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a", "# c\n1 # n\n", "rules"),
        ("a", "rule-file-version-2\n1\n", "rules"),
        ("a", "--mca a b\n", "tune"),
        ("a", "UCX_TLS=x\n", "ucx"),
        ("ucx.conf", "\n", "ucx"),
        ("a", "export A=b\n", "shell"),
        ("a.sh", "# c\n", "shell"),
        ("a", "a = b\n", "other"),
        ("a", "btl = self\n", "mca"),
        ("slurm.conf", "ClusterName=c\n", "other"),
        ("a", "UCX_TLS = x\n", "mca"),
        ("openmpi-mca-params.conf", "UCX_TLS=x\n", "mca"),
        ("a", "#!/bin/sh\nA=b\n", "shell"),
        ("recommendation.json", '{"rules": []}\n', "other"),
        ("summary.md", "# a = b\n", "other"),
    ],
)
def test_kinds_of_files(name, text, kind):
    assert kind_of(PurePath(name), text) == kind
