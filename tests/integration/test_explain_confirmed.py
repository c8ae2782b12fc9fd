"""A real Open MPI takes the rows that ``explain`` names."""

import pytest

from autotune.lint.explained import explained
from autotune.lint.verbs.explain import explain
from autotune.stacks.asked import Asked
from autotune.stacks.fixed_rules import fixed_algorithm
from tests.integration.test_exported_files import launch, mpirun  # noqa: F401 - a fixture

RULES = """3
2 # allreduce
2
2 # ranks
2
0 3 0 0
4096 4 0 0
5 # ranks
1
0 1 0 0
7 # bcast: the first entry is for more ranks than there are
1
5
2
0 6 0 0
1024 1 0 0
0 # allgather: compared with the blocks of all ranks
1
0
2
0 2 0 0
20000 4 0 0
"""
CALLS = ["allreduce:8", "allreduce:4096", "bcast:8", "bcast:2048", "allgather:8", "allgather:8192"]


def spoilt(rows):
    """The rules with an algorithm that does not exist in these lines: a call that reaches one is refused."""
    lines = RULES.splitlines()
    for line in rows:
        bound, _, rest = lines[line - 1].split(maxsplit=2)
        lines[line - 1] = f"{bound} 99 {rest}"
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("ranks", [2, 3])
def test_each_call_reaches_the_row_that_is_named(mpirun, tmp_path, ranks):  # noqa: F811 - the fixture
    path = tmp_path / "rules"
    stack = "openmpi5" if mpirun[2] == "5" else "openmpi4"
    rows = [n for n, line in enumerate(RULES.splitlines(), 1) if len(line.split()) == 4 and "#" not in line]
    reached = dict.fromkeys(CALLS, 0)
    for bit in range(len(rows).bit_length()):  # a row is known by the launches in which it was spoilt
        path.write_text(spoilt(row for number, row in enumerate(rows, 1) if number >> bit & 1))
        env = {
            "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
            "OMPI_MCA_coll_tuned_dynamic_rules_filename": str(path),
        }
        out, _ = launch(mpirun, CALLS, env, ranks)
        for line in out.splitlines():
            call, ended = line.split()
            assert ended in ("SUCCESS", "ERR_ARG")
            reached[call] |= (ended == "ERR_ARG") << bit
    path.write_text(RULES)
    named = {}
    for call in CALLS:
        name, size = call.split(":")
        answer = explained(path, RULES, Asked(name, ranks, int(size)), stack, lambda _: None, fixed_algorithm)
        named[call] = answer.line
    assert named == {call: rows[number - 1] for call, number in reached.items()}
    assert named["allgather:8192"] == rows[-1 if ranks == 3 else -2]
    assert explain(path, ranks, "8", "bcast", None, stack, False) == 0
