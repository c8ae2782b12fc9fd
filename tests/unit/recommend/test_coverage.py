"""Whether what was measured covers the calls of a job."""

from autotune.recommend.coverage import Cover, coverage

MEASURED = {("allreduce", p, size) for p in (4, 8) for size in (8, 1024)}


def cover(slot, nodes=2):
    (one,) = coverage(MEASURED, 2, [(slot, nodes, None)])
    return one.cover, one.why


def test_what_was_measured_is_covered_and_what_lies_within_its_tables():
    assert cover(("allreduce", 8, 1024)) == (Cover.MEASURED, "")
    for within in (("allreduce", 8, 64), ("allreduce", 8, 4), ("allreduce", 8, 2048), ("allreduce", 6, 8)):
        assert cover(within) == (Cover.WITHIN, ""), within


def test_beyond_that_it_says_what_is_missing():
    assert cover(("bcast", 8, 8)) == (Cover.NOT, "another collective")
    assert cover(("allreduce", 8, 8), nodes=1) == (Cover.NOT, "measured on 2 nodes")
    assert cover(("allreduce", 16, 8)) == (Cover.NOT, "measured on 4, 8 ranks")
    for size in (3, 2049):
        assert cover(("allreduce", 8, size)) == (Cover.NOT, "a message size beyond those measured")
