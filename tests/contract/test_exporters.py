"""What every exporter promises: text by file name, the same each time, and nothing written."""

from pathlib import PurePath

import pytest

from autotune.campaign.ports import Exporter
from autotune.exporters import FORMATS, exporter
from autotune.exporters.mpich import MpichSelection
from autotune.recommend.front import Provenance, Recommendation
from autotune.space import Point
from tests.golden.test_exports import SMALL_TREE, SUBJECTS


def made(name) -> Exporter:
    return MpichSelection(lambda: dict(SMALL_TREE)) if name == "mpich_json" else exporter(name)


@pytest.mark.parametrize("name", FORMATS)
def test_text_by_plain_file_name_and_nothing_written(name, tmp_path):
    files = made(name).export(SUBJECTS[name], tmp_path)
    assert files
    for file, text in files.items():
        assert PurePath(file).name == file
        assert text.endswith("\n")
        assert "\r" not in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_each_time(name, tmp_path):
    assert made(name).export(SUBJECTS[name], tmp_path) == made(name).export(SUBJECTS[name], tmp_path)


@pytest.mark.parametrize("name", [n for n in FORMATS if n != "han_rules"])
def test_a_recommendation_that_changes_nothing_can_be_exported(name, tmp_path):
    nothing = Recommendation(Point(), (), provenance=Provenance("c"))
    assert made(name).export(nothing, tmp_path)


@pytest.mark.parametrize("name", FORMATS)
def test_it_knows_its_own_name(name):
    assert made(name).name == name
    assert made(name).summary
