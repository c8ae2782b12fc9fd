"""Files of a site read back at the ranks of each job."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from autotune.history.trial import Rule
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.site import check as site_check
from autotune.site.check import READ_BACK, read_back
from autotune.space import Point


@pytest.mark.parametrize("sets", [False, True])
def test_files_that_set_nothing_say_so_at_the_ranks_of_each_job(
    sets: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where something is set and no format can be checked, nothing is said."""
    monkeypatch.setattr(site_check, "check_export", lambda *_: None)
    monkeypatch.setattr(site_check, "measurement_of", lambda *_: None)
    place = SimpleNamespace(stack="a real one", placement=SimpleNamespace(ranks=2), observer=None, whole=None)
    rules = (Rule("bcast", 2, 0, Point.of({"algorithm": "chain"})),) if sets else ()
    chosen = Recommendation(Point(), rules, provenance=Provenance("site", family="openmpi"))
    assert not read_back(chosen, ("openmpi_mca",), tmp_path, [(1, 2), (2, 2)], lambda _: (None, place))  # type: ignore[arg-type,return-value]  # as much of both as is asked
    assert (tmp_path / READ_BACK).exists() != sets
    if not sets:
        said = json.loads((tmp_path / READ_BACK).read_text())["said"]
        assert said == dict.fromkeys(("2", "4"), "nothing is set: the library decides")
