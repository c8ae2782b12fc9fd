"""Every format, file by file, as it was when a person last read it.

After a wanted change: ``AUTOTUNE_GOLDEN=write python -m pytest tests/golden/test_exports.py``, and read the
difference.
"""

import json
import math
import os
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.exporters import FORMATS, exporter
from autotune.exporters.mpich import MpichSelection
from autotune.history.objectives import ratio_of
from autotune.history.trial import Rule
from autotune.recommend.other_calls import OtherCall, OtherDecision
from autotune.recommend.recommendation import Gain, Provenance, Recommendation
from autotune.space import Point

GOLDEN = Path(__file__).with_name("exports")
DECLARED = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text(encoding="utf-8"))
PLUGINS = DECLARED["project"]["entry-points"]["autotune.exporters"]
OURS = (*FORMATS, *PLUGINS)
"""Every format of this project; other distributions that are installed here may add some."""
SITE = Path("/site/tuning")


def rule(collective, comm_size, min_bytes, **choice):
    return Rule(collective, comm_size, min_bytes, Point.of(choice))


def gain(size, tuned_us, default_us):
    return Gain(
        ("allreduce", 8, size), tuned_us * 1e-6, tuned_us * 1e-8, default_us * 1e-6, default_us * 1e-8
    )


OPENMPI = Recommendation(
    Point.of({"UCX_TLS": "self,sm,rc", "coll_han": "off"}),
    (
        rule("allgather", 8, 0),
        rule("allgather", 8, 1024, algorithm="ring"),
        rule("allreduce", 8, 0, algorithm="recursive_doubling", segsize=0),
        rule("allreduce", 8, 48000, algorithm="segmented_ring", segsize="64k"),
        rule("allreduce", 64, 0, algorithm="rabenseifner"),
        rule("alltoall", 2, 0, algorithm="two_proc"),
        rule("bcast", 8, 0, algorithm="chain", segsize=8192),
        rule("reduce_scatter_block", 8, 0, algorithm="recursive_halving"),
        rule("scan", 8, 0, algorithm="recursive_doubling"),
    ),
    (gain(8, 3.1, 3.1), gain(1 << 20, 410.0, 633.0)),
    Provenance(
        campaign="allreduce_8node",
        date="2026-11-20",
        stack="Open MPI 5.0.11, UCX 1.20.1, pml ucx",
        nodes=8,
        ranks=64,
        commutative=True,
        stamp="SIMULATED (LogGP)",
        verified="verified: 1.34× (1.31 … 1.37) on 16 fresh launches",
        env=(
            ("OMPI_MCA_pml", "ucx"),
            ("OMPI_MCA_coll_han_priority", "0"),
            ("OMPI_MCA_coll_tuned_use_dynamic_rules", "1"),
            ("UCX_TLS", "self,sm,rc"),
            ("UCX_RNDV_THRESH", "64k"),
        ),
        placement=(("map_by", "ppr:8:node"), ("bind_to", "core")),
    ),
)


def other(stack, rules):
    source = Provenance("bcast_4node", "2026-11-20", stack, 4, 16, env=(("UCX_TLS", "rc,self"),))
    return Recommendation(Point(), tuple(rules), provenance=source)


MPICH_BY_SIZE = other(
    "MPICH 5.0.2",
    [
        rule("allreduce", 4, 0, algorithm="recursive_doubling"),
        rule("allreduce", 4, 4096, algorithm="reduce_scatter_allgather"),
        rule("allreduce", 4, 262144, algorithm="ring"),
        rule("bcast", 4, 0),
        rule("bcast", 4, 65536, algorithm="scatter_ring_allgather"),
    ],
)
HAN = other(
    "Open MPI 5.0.11",
    [
        rule("allreduce", 8, 0, han_intra="sm", han_inter="libnbc", component="han"),
        rule("allreduce", 8, 65536, han_intra="tuned", han_inter="adapt", component="tuned"),
    ],
)
INTEL = other(
    "Intel MPI 2021.12",
    [
        rule("allreduce", 4, 0, algorithm="recursive_doubling"),
        rule("allreduce", 4, 1024, algorithm="rabenseifner"),
        rule("allreduce", 4, 65536, algorithm="shumilin_ring"),
        rule("bcast", 16, 0, algorithm="3"),
    ],
)
ONE_EACH = [rule("allreduce", 4, 0, algorithm="ring"), rule("barrier", 4, 0, algorithm="k_dissemination")]
UCC = Recommendation(
    Point(),
    (
        rule("allgather", 8, 0),
        rule("allgather", 8, 1024, ucc_algorithm="ring"),
        rule("allreduce", 8, 0, ucc_algorithm="knomial", ucc_radix=2),
        rule("allreduce", 8, 4096, ucc_algorithm="sra_knomial", ucc_radix=4),
        rule("allreduce", 8, 65536, ucc_algorithm="sra_knomial", ucc_radix=8),
        rule("allreduce", 64, 0, ucc_algorithm="dbt"),
        rule("alltoallv", 64, 0, ucc_algorithm="hybrid"),
        rule("reduce_scatter_block", 8, 4096, ucc_algorithm="knomial", ucc_radix=3),
    ),
    provenance=Provenance(
        "ucc_8node",
        "2026-11-20",
        "Open MPI 5.0.11, UCC 1.6",
        8,
        64,
        env=(("UCC_CL_BASIC_TLS", "^sharp,nccl"), ("UCX_TLS", "rc,self"), ("OMPI_MCA_pml", "ucx")),
    ),
)
SUBJECTS = {
    **dict.fromkeys(OURS, OPENMPI),
    "han_rules": HAN,
    "mpich_cvars": other("MPICH 5.0.2", ONE_EACH),
    "mpich_json": MPICH_BY_SIZE,
    "intel": INTEL,
    "ucc_conf": UCC,
    "mvapich2": other("MVAPICH2 2.3.7", [rule("allreduce", 4, 0, algorithm="4")]),
    "mvapich3": other("MVAPICH 4.1", [*ONE_EACH, rule("bcast", 4, 0, algorithm="osu_pairwise")]),
}

SMALL_TREE = {
    "collective=allreduce": {
        "comm_type=intra": {"algorithm=MPIR_Allreduce_intra_smp": {}},
        "comm_type=inter": {"algorithm=MPIR_Allreduce_inter_reduce_exchange_bcast": {}},
    },
    "collective=bcast": {"comm_type=intra": {"algorithm=MPIR_Bcast_intra_binomial": {}}},
    "collective=barrier": {"algorithm=MPIR_Barrier_intra_smp": {}},
}


def exported(name):
    made = MpichSelection(lambda: dict(SMALL_TREE)) if name == "mpich_json" else exporter(name)
    return made.export(SUBJECTS[name], SITE)


@pytest.mark.parametrize("name", OURS)
def test_the_files_of_a_format_are_as_they_were_read(name):
    files = exported(name)
    folder = GOLDEN / name
    if os.environ.get("AUTOTUNE_GOLDEN") == "write":
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (folder / file).write_text(text)
    assert {path.name: path.read_text() for path in folder.iterdir()} == dict(files)


@pytest.mark.parametrize("name", OURS)
def test_every_file_says_where_it_comes_from(name):
    source = SUBJECTS[name].provenance
    for file, text in exported(name).items():
        if file == "mpich-selection.json":  # every key of such a tree is a condition
            continue
        words = [source.campaign, source.date, source.stack, source.stamp, source.verified]
        assert [word for word in words if word not in text] == []
        assert f"{source.nodes}" in text
        assert text.endswith("\n")


def test_the_json_document_can_be_read_back():
    from autotune.exporters.document import recommendation_of

    (text,) = exporter("json").export(OPENMPI, SITE).values()
    again = recommendation_of(text)
    assert again == OPENMPI
    assert math.isclose(again.speedup, OPENMPI.speedup)


NOT_KNOWN = (ratio_of(-math.inf), ratio_of(math.inf))


@pytest.mark.parametrize("ends", [NOT_KNOWN, (0.0, math.inf)])
def test_ends_of_an_interval_that_are_not_known_are_null_and_are_read_as_before(ends):
    from autotune.exporters.document import recommendation_of

    first, *others = OPENMPI.gains
    call = OtherCall("bcast", 8, 1e-6, 1e-6, 1.1, *ends, 0.1, ends[0], OtherDecision.INCONCLUSIVE)
    unknown = replace(first, compared=(1.1, *ends), other_loop=(1.2, *ends))
    subject = replace(OPENMPI, gains=(unknown, *others), others=(call,))
    (text,) = exporter("json").export(subject, SITE).values()
    document = json.loads(text)
    told, other = document["gains"][0], document["others"][0]
    assert (told["compared"], told["other_loop"]) == ([1.1, None, None], [1.2, None, None])
    assert [other[key] for key in ("low", "high", "at_least")] == [None] * 3
    told["compared"], other["low"] = [1.1, *NOT_KNOWN], NOT_KNOWN[0]  # as earlier versions wrote them
    for again in map(recommendation_of, (text, json.dumps(document))):
        assert again.gains[0].interval == again.gains[0].other_loop[1:] == NOT_KNOWN
        assert (again.others[0].low, again.others[0].high, again.others[0].at_least) == (
            *NOT_KNOWN,
            NOT_KNOWN[0],
        )
