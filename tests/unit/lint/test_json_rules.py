"""Rules of ``coll_tuned`` in JSON: each trap planted once; what is right is left alone."""

import json
from pathlib import PurePath

import pytest

from autotune.exporters import exporter
from autotune.history.trial import Rule
from autotune.lint.files import lint
from autotune.recommend.recommendation import Recommendation
from autotune.space import Point
from autotune.stacks import coll_tuned
from tests.golden.test_exports import SITE


def found(text):
    return [(f.line, f.effect, f.remedy) for f in lint({PurePath("r.json"): text}, "openmpi6")]


def document(collective="allreduce", *entries):
    return json.dumps({"rule_file_version": 3, "module": "tuned", "collectives": {collective: entries}})


def entry(*rules, **bounds):
    return {**bounds, "rules": list(rules)}


RING = {"alg": "ring"}
IGNORED = "silently ignored"
TRAPS = [
    ("the schema's own name", document("reducescatter", entry(RING)), IGNORED, "write reduce_scatter"),
    ("no list of entries", document().replace("[]", "{}"), "no list of entries: the whole file", ""),
    ("no rules", document("bcast", {"comm_size_min": 2}), "no list of rules: the whole file", ""),
    ("a size with a unit", document("allreduce", entry({**RING, "msg_size_min": "1K"})), IGNORED, "bytes"),
    ("a broken number", document("allreduce", entry({**RING, "msg_size_max": 1e3})), IGNORED, "bytes"),
    (
        "a place that is a number",
        document("bcast", {**entry(RING), "comm_rank_distribution": 1}),
        IGNORED,
        "",
    ),
    ("an unknown place", document("allreduce", entry(RING, comm_rank_distribution="node")), "for 'any'", ""),
    ("an open end of ranks", document("allreduce", entry(RING, comm_size_max="inf")), "never used", "leave"),
    (
        "ranks the wrong way",
        document("allreduce", entry(RING, comm_size_min=9, comm_size_max=8)),
        "never",
        "",
    ),
    ("an entry behind one for all", document("allreduce", entry(RING), entry(RING)), "entry 2", "order"),
    (
        "a rule behind two that hold for all",
        document("allreduce", entry({**RING, "msg_size_max": 63}, {**RING, "msg_size_min": 64}, RING)),
        "rule 3 of entry 1 of allreduce is never used",
        "order",
    ),
    ("no algorithm", document("allreduce", entry({"msg_size_min": 0})), "the stack decides", "ring"),
    ("an id too large", document("allreduce", entry({"alg": 8})), "no algorithm 8", "disabled"),
    (
        "what upstream's converter writes",
        document("allreduce", entry({"alg": 5, "segsize": 8})),
        "'segsize' is skipped",
        "seg_size",
    ),
    ("segments of none", document("allreduce", entry({**RING, "seg_size": 64})), "has no segments", ""),
    ("a chain without fan-out", document("bcast", entry({"alg": "chain"})), "is a pipeline", "4"),
    (
        "two ranks alone",
        document("alltoall", entry({"alg": "two_proc"})),
        "UNSUPPORTED",
        "'comm_size_max': 2",
    ),
    ("no choice there", document("gatherv", entry({"alg": 1})), "crashes", "leave it out"),
    ("neighbours", document("neighbor_allgather", entry({"alg": 1})), "crashes", "leave it out"),
    (
        "sizes that not all ranks know",
        document("gather", entry({"alg": 1, "msg_size_max": 63}, {"alg": 2})),
        "deadlock",
        "single rule",
    ),
]


@pytest.mark.parametrize(("text", "words", "remedy"), [t[1:] for t in TRAPS], ids=[t[0] for t in TRAPS])
def test_a_trap(text, words, remedy):
    seen = found(text)
    assert len(seen) == 1, seen
    assert words in seen[0][1]
    assert remedy in seen[0][1] + seen[0][2]


SOUND = [
    document(
        "allreduce", entry({**RING, "msg_size_max": "inf", "reqs": 0}, comm_size_min=2, comm_size_max=4)
    ),
    document("alltoall", entry({"alg": 5}, comm_size_max=2), entry({"alg": 2})),
    document(
        "bcast", entry({"alg": 6}, comm_rank_distribution="single-node"), entry({"alg": 2, "faninout": 4})
    ),
    # Overlaps are allowed, in any order, and so are rules that leave gaps.
    document("allreduce", entry({**RING, "msg_size_min": 64}, {"alg": 3, "msg_size_max": 100})),
    # As the example in Open MPI's own documentation.
    document("allreduce", entry(RING)).replace('"ring"}', '"ring", }').replace("]}", "],\n}"),
    document(),
]


@pytest.mark.parametrize("text", SOUND)
def test_what_is_sound_is_left_alone(text):
    assert found(text) == []


def test_a_comma_in_a_string_is_no_trailing_comma():
    text = json.dumps({"comment": "a, ]", "collectives": {"allreduce": [entry({"alg": "ring, }"})]}})
    assert "no algorithm 'ring, }'" in found(text.replace("}]}", "}],}"))[0][1]


@pytest.mark.parametrize("collective", sorted(coll_tuned.ALGORITHMS))
def test_every_collective_is_called_what_the_reader_calls_it(collective):
    last = coll_tuned.algorithms(collective, (6, 0))[-1]
    rules = (Rule(collective, 2, 0, Point.of({"algorithm": last})),)
    text = exporter("coll_tuned_json").export(Recommendation(Point(), rules), SITE)["coll_tuned_rules.json"]
    assert list(json.loads(text)["collectives"]) == [collective]
    assert found(text) == []
