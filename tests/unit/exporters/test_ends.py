"""What formats say beyond the sizes that were measured: the library decides, where they can say so."""

from pathlib import Path

import pytest

from autotune.errors import UserError
from autotune.exporters import exporter
from autotune.exporters.mpich import MpichSelection
from autotune.exporters.settings import EVERYWHERE
from autotune.history.objectives import Winner
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Gain, Provenance, Recommendation
from autotune.recommend.rules import rules_of
from autotune.space import Point
from autotune.stacks import dialect

HERE = Path("/exported")
SLOT = ("allreduce", 4, 8192)


def found(family, rules):
    return Recommendation(Point(), rules, (Gain(SLOT, 1e-6, 0.0, 2e-6, 0.0),), Provenance(family=family))


def bounded(**choice):
    """The rules of a campaign at 8 KiB alone."""
    point = Point.of(choice)
    return rules_of({SLOT: {point: Winner(1e-6, 0.0, point)}})


def test_a_selection_tree_of_mpich_goes_on_with_its_own_branch():
    own = {"algorithm=MPIR_Allreduce_intra_auto": {}}
    made = MpichSelection(lambda: {"collective=allreduce": {"comm_type=intra": own}})
    text = made.export(found("mpich", bounded(algorithm="ring")), HERE)["mpich-selection.json"]
    tree = " ".join(text.split())
    below, ring, beyond = tree.index('size<4096"'), tree.index("ring"), tree.index('size=any": { "algo')
    assert below < ring < beyond
    assert 'size<16385"' in tree


def test_ucc_has_a_range_of_sizes():
    text = exporter("ucc_conf").export(found("openmpi", bounded(ucc_algorithm="knomial")), HERE)["ucc.conf"]
    assert "allreduce:4096-16385:@knomial" in text


def test_han_goes_back_to_its_own_component():
    files = exporter("han_rules").export(found("openmpi", bounded(component="tuned")), HERE)
    (text,) = files.values()
    assert [line for line in text.splitlines() if line.split(" ")[0] in ("4096", "16385")] == [
        "4096 tuned",
        "16385 han",
    ]


@pytest.mark.parametrize(
    ("name", "family", "algorithm", "said"),
    [
        ("mpich_cvars", "mpich", "ring", "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=ring"),
        ("mvapich3", "mvapich", "osu_ring", "MVP_ALLREDUCE_INTRA_ALGORITHM=osu_ring"),
        ("mvapich2", "mvapich", "2", "MV2_INTER_ALLREDUCE_TUNING=2"),
    ],
)
def test_what_has_no_word_for_an_end_says_so(name, family, algorithm, said):
    (text,) = exporter(name).export(found(family, bounded(algorithm=algorithm)), HERE).values()
    assert said in text
    assert EVERYWHERE in text


def test_what_a_verification_refused_at_a_measured_size_is_no_end():
    ring = Point.of({"algorithm": "ring"})
    rules = tuple(Rule("allreduce", 4, size, choice) for size, choice in ((0, Point()), (4096, ring)))
    gains = tuple(Gain(("allreduce", 4, size), 1e-6, 0.0, 2e-6, 0.0) for size in (64, 8192))
    refused = Recommendation(Point(), rules, gains, Provenance(family="mpich"))
    with pytest.raises(UserError, match="different algorithms by size"):
        exporter("mpich_cvars").export(refused, HERE)


def test_collectives_whose_size_mpich_cannot_ask_for_have_one_row():
    own = dialect("mpich").one_row
    assert {"scan", "exscan", "barrier"} <= set(own)
    assert "allreduce" not in own
