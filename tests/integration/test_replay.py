"""``conf=replay``: whole campaigns on a recorded table, no MPI needed."""

from pathlib import Path

import pytest

from autotune.campaign.directory import read_campaign
from autotune.cli import main
from autotune.history.trial import Cell, History, Phase
from autotune.space import Point

TABLE = """algorithm,segment,message_bytes,latency_us,run,is_default
default,,8,5.0,a,1
default,,1024,20.0,a,1
default,,8,5.2,b,1
default,,1024,21.0,b,1
ring,0,8,9.0,a,0
ring,0,1024,11.0,a,0
ring,4096,8,8.0,a,0
ring,4096,1024,10.0,a,0
recursive_doubling,,8,4.0,a,0
recursive_doubling,,1024,30.0,a,0
linear,,8,,a,0
linear,,1024,,a,0
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "site_allreduce.csv"
    path.write_text(TABLE)
    return path


def replay(table: Path, directory: Path, *words: str) -> int:
    return main(["conf=replay", f"replay.table={table}", f"campaign.dir={directory}", *words])


def test_a_campaign_finds_the_envelope_of_the_table(table, tmp_path, capsys):
    assert replay(table, tmp_path / "c", "proposer=curve", "budget.launches=9", "seed=4") == 0
    record = read_campaign(tmp_path / "c")
    phases = [o.trial.phase for o in record.history]
    assert phases[0] is Phase.BASELINE
    assert set(phases[1:]) == {Phase.SEARCH}
    searched = [o.trial for o in record.history.of(Phase.SEARCH)]
    once, again = searched[:4], searched[4:]
    assert len({trial.point for trial in once}) == 4  # all that the table has beside the default
    assert all(trial.note.startswith("again") for trial in again)  # a recorded run says that it is noisy
    small, large, end = record.recommended().rules
    assert (small.min_bytes, small.choice["algorithm"]) == (4, "recursive_doubling")
    assert 8 < large.min_bytes <= 1024
    assert large.choice == Point.of({"algorithm": "ring", "segment": 4096})
    assert not end.choice  # nothing is known of larger messages
    failed = [o for o in record.history if not o.ok]
    assert [o.trial.point for o in failed] == [Point.of({"algorithm": "linear"})]
    assert str(record.about.bench.stamp) == "REPLAYED (from site_allreduce.csv)"
    stamped = "all of this is REPLAYED (from site_allreduce.csv): no MPI ran"
    assert capsys.readouterr().out.splitlines()[-1] == stamped
    assert replay(table, tmp_path / "c", "proposer=curve", "budget.launches=9", "seed=4") == 0
    again = capsys.readouterr().out
    assert "is complete" in again.replace("\n", " ")
    assert again.splitlines()[-1] == stamped
    assert main(["export", str(tmp_path / "c"), "--format", "json"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == stamped


def test_the_default_is_recommended_where_it_is_best(tmp_path):
    table = tmp_path / "t_bcast.csv"
    table.write_text("algorithm,message_bytes,latency_us,is_default\na,8,2,1\na,64,2,1\nb,8,3,0\nb,64,4,0\n")
    assert replay(table, tmp_path / "c", "proposer=random", "budget.launches=3") == 0
    recommendation = read_campaign(tmp_path / "c").conclude().recommendation
    assert recommendation is not None
    assert {rule.choice["algorithm"] for rule in recommendation.rules} == {"a"}
    assert recommendation.speedup == pytest.approx(1.0)


def test_one_configuration_of_one_size_is_a_campaign_of_its_default(tmp_path):
    table = tmp_path / "t_bcast.csv"
    table.write_text("algorithm,message_bytes,latency_us,is_default\na,8,2,1\n")
    assert replay(table, tmp_path / "c", "proposer=curve", "budget.launches=4") == 0
    assert len(read_campaign(tmp_path / "c").history) == 1


def test_a_campaign_replays(table, tmp_path):
    assert replay(table, tmp_path / "c", "proposer=grid", "budget.launches=5") == 0
    assert replay(tmp_path / "c", tmp_path / "d", "proposer=grid", "budget.launches=5") == 0
    first, second = (read_campaign(tmp_path / name).history for name in ("c", "d"))

    def times(history: History) -> dict[tuple[Point, Cell], float]:
        return {(o.trial.point, e.cell): e.median_s for o in history for e in o.usable}

    assert times(first) == times(second)


def test_a_finished_campaign_starts_another_one_warm(table, tmp_path):
    assert replay(table, tmp_path / "c", "proposer=grid", "budget.launches=5") == 0
    warm = ("proposer=curve", "budget.launches=2", f"warm_start={tmp_path / 'c'}")
    assert replay(table, tmp_path / "d", *warm) == 0
    first = read_campaign(tmp_path / "d").history.of(Phase.SEARCH).observations[0]
    assert first.trial.point == Point.of({"algorithm": "ring", "segment": 4096})


def test_a_warm_start_from_a_campaign_that_fixed_something_else_says_that_nothing_carries_over(
    table, tmp_path, capsys
):
    assert replay(table, tmp_path / "c", "proposer=random", "budget.launches=3", "fix.algorithm=ring") == 0
    capsys.readouterr()
    warm = ("proposer=curve", "budget.launches=2", f"warm_start={tmp_path / 'c'}")
    assert replay(table, tmp_path / "d", *warm) == 0
    said = capsys.readouterr().err
    assert "nothing carries over" in said
    assert "(fixed there: {'algorithm': 'ring'}, here: {})" in said


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["replay.tabel=x"], "did you mean 'table'"),
        (["replay.table=null"], "replay.table is not set"),
        (["replay.call_level=[algorithms]"], "did you mean 'algorithm'"),
        (["proposer=curvy"], "curve"),
        (["warm_start=nowhere"], "nowhere holds no campaign"),
    ],
)
def test_mistakes_are_named(table, tmp_path, capsys, words, part):
    assert replay(table, tmp_path / "c", *words) == 2
    assert part in capsys.readouterr().err


def test_a_bad_table_is_named_by_row_and_column(table, tmp_path, capsys):
    table.write_text(TABLE.replace("30.0", "slow"))
    assert replay(table, tmp_path / "c") == 2
    row = 1 + next(i for i, line in enumerate(table.read_text().splitlines()) if "slow" in line)
    assert f"row {row}, column latency_us: 'slow'" in capsys.readouterr().err


@pytest.mark.parametrize("words", [(), ("verify.enabled=true",), ("baseline.launches=2",)])
@pytest.mark.parametrize("per_job", ["[]", "[algorithm]"])
def test_without_a_default_nothing_is_compared_with_one(tmp_path, capsys, words, per_job):
    """The fastest row comes first, which is no reason to call it the stack's own default."""
    table = tmp_path / "t_bcast.csv"
    table.write_text("algorithm,message_bytes,latency_us\nfast,8,2\nfast,64,2\nslow,8,90\nslow,64,99\n")
    asked = ("proposer=random", "budget.launches=4", f"replay.per_job={per_job}", *words)
    assert replay(table, tmp_path / "c", *asked) == 0
    assert main(["status", str(tmp_path / "c")]) == 0
    assert main(["export", str(tmp_path / "c"), "--format", "summary"]) == 0
    said = capsys.readouterr().out + (tmp_path / "c" / "export" / "summary.md").read_text()
    assert "×" not in said
    assert "own default" not in said
    assert "the default" not in said
    assert "algorithm=fast" in said
    record = read_campaign(tmp_path / "c")
    assert not record.history.of(Phase.BASELINE, Phase.VERIFY)
    recommendation = record.conclude().recommendation
    assert recommendation is not None
    assert recommendation.gains == ()


def test_of_several_collectives_one_is_asked_for(tmp_path, capsys):
    table = tmp_path / "runs.csv"
    table.write_text("algorithm,message_bytes,latency_us\na,8,2\n")
    assert replay(table, tmp_path / "c", "proposer=random") == 2
    said = capsys.readouterr().err
    assert "runs.csv: nothing says what was measured" in said
    assert "replay.collective=NAME" in said
    words = (
        "conf=allreduce_8node",
        "collective=[bcast,reduce]",
        "sizes=[8]",
        f"campaign.dir={tmp_path / 'two'}",
    )
    small = ("budget.launches=4", "screening.enabled=false", "verify.enabled=false", "proposer=random")
    assert main([*words, *small, "export=[]"]) == 0
    again = ("proposer=random", "budget.launches=2")
    assert replay(tmp_path / "two", tmp_path / "d", *again) == 2
    assert "measured bcast, reduce" in capsys.readouterr().err
    assert replay(tmp_path / "two", tmp_path / "d", *again, "replay.collective=reduce") == 0
    assert read_campaign(tmp_path / "d").about.scenario.collective == ("reduce",)
