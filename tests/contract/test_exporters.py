"""What every exporter promises: text by file name, the same each time, nothing written; or a refusal."""

import tempfile
from pathlib import Path, PurePath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.campaign.ports import Exporter
from autotune.collectives import COLLECTIVES
from autotune.errors import UserError
from autotune.exporters import FORMATS, GROUP, exporter
from autotune.exporters.mpich import MpichSelection
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.resources.plugins import offers
from autotune.space import Point
from tests.contract.implementations import implementations
from tests.golden.test_exports import OURS, SMALL_TREE, SUBJECTS

PLUGINS = offers(GROUP, FORMATS).found
EACH = pytest.mark.parametrize("name", (*FORMATS, *PLUGINS))

ALGORITHMS = ("default", "ring", "recursive_doubling", "linear", "binomial", "pairwise", "3", 4, "unheard_of")
CHOICES = st.one_of(
    st.just(Point()),
    st.builds(lambda name: Point.of({"algorithm": name}), st.sampled_from(ALGORITHMS)),
    st.builds(
        lambda name, size: Point.of({"algorithm": name, "segsize": size}),
        st.sampled_from(ALGORITHMS),
        st.sampled_from((0, "64k", 8192)),
    ),
)
TABLES = st.builds(
    lambda collective, comm_size, starts, choices: [
        Rule(collective, comm_size, start, choice)
        for start, choice in zip([0, *sorted(starts)], choices, strict=False)
    ],
    st.sampled_from(sorted(COLLECTIVES)),
    st.integers(2, 100),
    st.sets(st.integers(1, 2**24), max_size=3),
    st.lists(CHOICES, min_size=1, max_size=4),
)
VALUES = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=12)
RECOMMENDATIONS = st.builds(
    lambda tables, env, stack, placement: Recommendation(
        Point(),
        tuple(rule for table in sorted(tables, key=lambda t: t[0].collective) for rule in table),
        provenance=Provenance("c", "2026-11-22", stack, 2, 8, env=tuple(env.items()), placement=placement),
    ),
    st.lists(TABLES, max_size=3, unique_by=lambda table: table[0].collective),
    st.dictionaries(st.sampled_from(("UCX_TLS", "OMPI_MCA_pml", "OMPI_MCA_coll_han_priority")), VALUES),
    st.sampled_from(("", "Open MPI 5.0.11, UCX 1.20.1", "MPICH 5.0.2", "Intel MPI 2021.12", "MVAPICH 4.1")),
    st.sampled_from(((), (("map_by", "ppr:8:node"), ("bind_to", "core")))),
)
"""Whatever a campaign could end with, and things that no stack has heard of."""


def made(name: str) -> Exporter:
    if name in PLUGINS:
        return PLUGINS[name].load()()  # as it is: what it raises is not made a refusal
    return MpichSelection(lambda: dict(SMALL_TREE)) if name == "mpich_json" else exporter(name)


def exported(name, directory):
    """The files of what a format is for; of somebody's plugin of the first one that it can say."""
    for subject in [SUBJECTS[name]] if name in OURS else SUBJECTS.values():
        try:
            return made(name).export(subject, directory)
        except UserError:
            if name in OURS:
                raise
    return {}


def test_every_exporter_is_registered():
    lineages = [type(made(name)).__mro__ for name in OURS]
    assert implementations("export(recommendation, directory)") == {
        c.__name__ for line in lineages for c in line if "export" in vars(c)
    }


@EACH
def test_it_knows_its_own_name(name):
    assert made(name).name == name
    assert made(name).summary


@EACH
def test_text_by_plain_file_name_and_nothing_written(name, tmp_path):
    files = exported(name, tmp_path)
    assert files
    assert_plain_text(files)
    assert list(tmp_path.iterdir()) == []


@EACH
def test_a_recommendation_that_changes_nothing_can_be_exported(name, tmp_path):
    if name == "han_rules":
        with pytest.raises(UserError):
            made(name).export(Recommendation(Point(), ()), tmp_path)
    else:
        nothing = Recommendation(Point(), (), provenance=Provenance("c"))
        assert made(name).export(nothing, tmp_path)


@EACH
@settings(max_examples=25)
@given(recommendation=RECOMMENDATIONS)
def test_whatever_is_recommended_is_said_in_text_or_refused(name, recommendation):
    with tempfile.TemporaryDirectory() as folder:
        try:
            files = made(name).export(recommendation, Path(folder))
        except UserError as refusal:
            assert str(refusal)
        else:
            assert_plain_text(files)
            assert files == made(name).export(recommendation, Path(folder))
        assert list(Path(folder).iterdir()) == []


def assert_plain_text(files):
    for file, text in files.items():
        assert PurePath(file).name == file
        assert text.endswith("\n")
        assert not {"\r", "\0"} & set(text)
        text.encode("utf-8")
