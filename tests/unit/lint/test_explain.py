"""What ``explain`` says of files of every kind, without any MPI."""

from pathlib import PurePath

import pytest

from autotune.cli import main
from autotune.errors import TableError
from autotune.lint.explained import explained
from autotune.stacks.asked import Asked
from autotune.stacks.fixed_rules import fixed_algorithm
from tests.schemas import answer

RULES = "1\n7\n2\n5\n2\n0 6 0 0\n4096 1 0 0\n16\n1\n0 0 0 0\n"


def of(name, text, collective, ranks, nbytes, ppn=0, mpi="openmpi5", files=None):
    return explained(
        PurePath(name), text, Asked(collective, ranks, nbytes, ppn), mpi, (files or {}).get, fixed_algorithm
    )


@pytest.mark.parametrize(
    ("ranks", "nbytes", "line", "algorithm", "why"),
    [
        (2, 8, 6, "binomial (6)", "the entry for 5 ranks is the first one, which serves all smaller"),
        (8, 4096, 7, "linear (1)", "the last one up to 8 ranks"),
        (64, 8, 10, "", "the last one, which serves all larger"),
    ],
)
def test_classic_rules(ranks, nbytes, line, algorithm, why):
    answer = of("rules.conf", RULES, "bcast", ranks, nbytes)
    assert (answer.line, answer.algorithm, answer.component) == (line, algorithm, "coll_tuned")
    assert any(why in reason for reason in answer.why)


def test_where_the_rules_leave_it_to_the_stack_its_own_choice_is_named():
    assert "coll_tuned's fixed rules of 5.0 take knomial" in of("r.conf", RULES, "bcast", 64, 8192).why[-1]
    assert of("r.conf", RULES, "scan", 8, 8).why[0] == "r.conf has no rules for scan"


def test_the_second_version_has_a_fifth_column():
    text = "rule-file-version-2\n1\n3\n1\n2\n2\n0 2 0 0 0\n4096 4 0 0 16\n"
    assert of("r.conf", text, "alltoall", 4, 2048).line == 8
    assert of("r.conf", text, "alltoall", 4, 512).line == 7
    one_line = "1 3 1 2 2 0 2 0 0 010000 4 0 0"  # octal: 4096
    assert of("r.conf", one_line, "alltoall", 4, 1024).algorithm == "linear_sync (4)"
    assert of("r.conf", one_line, "alltoall", 4, 1023).algorithm == "pairwise (2)"


def test_a_file_that_the_library_forgets_decides_nothing():
    answer = of("r.conf", "1\n7\n1\n2\n1\n8 6 0 0\n", "bcast", 2, 8)
    assert not answer.line
    assert "ignored" in answer.why[0]


def test_an_algorithm_that_does_not_exist_is_refused():
    assert "MPI_ERR_ARG" in of("r.conf", "1\n7\n1\n2\n1\n0 42 0 0\n", "bcast", 2, 8).algorithm


def test_what_component_is_asked_first():
    one, many = (of("r.conf", RULES, "bcast", ranks, 8, 4) for ranks in (4, 8))
    assert (one.component, many.component) == ("coll_tuned", "coll_han")
    assert of("r.conf", RULES, "bcast", 8, 8, 4, "openmpi4").component == "coll_tuned"
    assert of("r.conf", RULES, "bcast", 1, 8).component == "coll_self"
    conf = "coll_tuned_use_dynamic_rules = 1\ncoll_tuned_bcast_algorithm = 6\ncoll_han_priority = 0\n"
    assert of("mca-params.conf", conf, "bcast", 8, 8, 4).component == "coll_tuned"


def test_a_parameter_file_is_followed_to_its_rules():
    conf = "coll_tuned_use_dynamic_rules = 1\ncoll_tuned_dynamic_rules_filename = /etc/r.conf\n"
    forced = conf + "coll_tuned_bcast_algorithm = 3\n"
    files = {"/etc/r.conf": RULES}
    assert of("mca-params.conf", conf, "bcast", 8, 8, files=files).line == 6
    assert of("mca-params.conf", forced, "bcast", 8, 8, files=files).algorithm == "binomial (6)"
    assert of("mca-params.conf", forced, "bcast", 64, 8, files=files).algorithm == "pipeline (3)"
    off = of("mca-params.conf", forced.replace("= 1", "= 0"), "bcast", 8, 8, files=files)
    assert not off.algorithm
    assert "ignored without coll_tuned_use_dynamic_rules = 1" in off.why[0]
    assert "cannot be read here" in of("mca-params.conf", conf, "bcast", 8, 8).why[0]


JSON = """{"rule_file_version": 3, "module": "tuned", "collectives": {
  "allreduce": [
    {"comm_size_min": 2, "comm_size_max": 4, "rules": [
      {"msg_size_min": 0, "msg_size_max": 1023, "alg": "ring"},
      {"alg": "rabenseifner"}]},
    {"comm_size_min": 5, "comm_rank_distribution": "one-per-node", "rules": [{"alg": "linear"}]}
  ]}}
"""


@pytest.mark.parametrize(
    ("ranks", "nbytes", "ppn", "line", "algorithm"),
    [(4, 1023, 0, 4, "ring"), (4, 1024, 0, 5, "rabenseifner"), (8, 8, 1, 6, "linear"), (8, 8, 2, 0, "")],
)
def test_json_rules(ranks, nbytes, ppn, line, algorithm):
    answer = of("r.json", JSON, "allreduce", ranks, nbytes, ppn, "openmpi6")
    assert (answer.line, answer.algorithm) == (line, algorithm)


TREE = """{
 "collective=allgather": {
  "comm_type=intra": {
   "comm_size<8": {
    "total_msg_size<=4096": {"algorithm=MPIR_Allgather_intra_brucks": {}},
    "total_msg_size=any": {"algorithm=MPIR_Allgather_intra_ring": {}}},
   "comm_size=pow2": {"algorithm=MPIR_Allgather_intra_recursive_doubling": {}},
   "comm_size=any": {"algorithm=MPIR_Allgather_intra_ring": {}}}}}
"""


@pytest.mark.parametrize(
    ("ranks", "nbytes", "line", "algorithm"),
    [(4, 1024, 5, "brucks"), (4, 1025, 6, "ring"), (16, 8, 7, "recursive_doubling"), (12, 8, 8, "ring")],
)
def test_mpich_s_selection_tree(ranks, nbytes, line, algorithm):
    answer = of("tree.json", TREE, "allgather", ranks, nbytes)
    assert (answer.line, answer.algorithm) == (line, f"MPIR_Allgather_intra_{algorithm}")
    script = "export MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE=/t.json\nmpirun -n 4 ./a\n"
    pointed = of("job.sh", script, "allgather", ranks, nbytes, files={"/t.json": TREE})
    assert (pointed.line, pointed.algorithm) == (1, answer.algorithm)


def test_a_tree_that_is_cut_off_is_refused():
    with pytest.raises(TableError, match=r"tree\.json"):
        of("tree.json", TREE[:-9], "allgather", 4, 8)
    deep = '{"collective=bcast":' * 900 + "{}" + "}" * 900
    with pytest.raises(TableError, match="nested deeper"):
        of("tree.json", deep, "bcast", 4, 8)


@pytest.mark.parametrize(
    ("value", "ranks", "nbytes", "algorithm"),
    [
        ("5", 4, 8, "binomial_gather_scatter (5)"),
        ("1:0-1023;2:1024-4096", 4, 1023, "recursive_doubling (1)"),
        ("1:0-1023;2:1024-4096", 4, 1024, "rabenseifner (2)"),
        ("1:0-1023;2:1024-4096", 4, 9999, "rabenseifner (2)"),
        ("1:0-1023@1-8;2:0-1023@9-16", 12, 8, "rabenseifner (2)"),
    ],
)
def test_intel_s_adjustments(value, ranks, nbytes, algorithm):
    answer = of(
        "job.sh", f'export I_MPI_ADJUST_ALLREDUCE="{value}"\nmpirun -n 4 ./a\n', "allreduce", ranks, nbytes
    )
    assert (answer.line, answer.algorithm, answer.component) == (1, algorithm, "Intel MPI")


def test_a_value_that_intel_would_not_take_is_refused():
    with pytest.raises(TableError, match="no list of ID:LOW-HIGH"):
        of("job.sh", "export I_MPI_ADJUST_ALLREDUCE=ring\nmpirun -n 4 ./a\n", "allreduce", 4, 8)


UCC = """UCC_TL_UCP_TUNE=allreduce:0-4k:@knomial#allreduce:4k-inf:@ring
[team_size=64 ppn=8 nnodes=8]
UCC_TL_UCP_TUNE=allgather:0-64k:inf:@bruck#allgather:0-inf:@linear
"""


@pytest.mark.parametrize(
    ("collective", "ranks", "nbytes", "ppn", "line", "algorithm"),
    [
        ("allreduce", 4, 4095, 0, 1, "knomial"),
        ("allreduce", 4, 4096, 0, 1, "ring"),
        ("allgather", 64, 1023, 8, 3, "bruck"),
        ("allgather", 64, 1025, 8, 3, "linear"),
        ("allgather", 64, 8, 16, 0, ""),
    ],
)
def test_ucc_s_scores(collective, ranks, nbytes, ppn, line, algorithm):
    answer = of("ucc.conf", UCC, collective, ranks, nbytes, ppn)
    assert (answer.line, answer.algorithm) == (line, algorithm)


def test_the_verb(tmp_path, capsys):
    rules, other = tmp_path / "r.conf", tmp_path / "a.py"
    rules.write_text(RULES)
    other.write_text("print(1)\n")
    words = ["lint", "--explain", str(rules), "--ranks", "4"]
    assert main([*words, "--bytes", "4k"]) == 0
    said = capsys.readouterr().out
    assert "bcast of 4 KiB on 4 ranks (its size counts the vector of each rank)" in said
    assert f"{rules}:7" in said
    assert main([*words, "--bytes", "8", "--json"]) == 0
    (document,) = answer(capsys.readouterr().out)["calls"]
    assert (document["line"], document["algorithm"]) == (6, "binomial (6)")
    assert main([*words, "--bytes", "8", "--collective", "allgather"]) == 1
    assert "has no rules for allgather" in capsys.readouterr().out
    for wrong, part in (
        (["--bytes", "many"], "is no size"),
        (["--bytes", "8", "--collective", "x"], "no collective"),
        (["--bytes", "8", "--ppn", "8"], "--ppn 8 is more than --ranks 4"),
    ):
        assert main([*words, *wrong]) == 2
        assert part in capsys.readouterr().err
    assert main(["lint", "--explain", str(other), "--ranks", "4", "--bytes", "8"]) == 5
    assert "of an unknown kind" in capsys.readouterr().err
