"""``verify --app``: a launcher of another MPI than the campaign's, and what files cost beside MPI."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from autotune.application.verbs import verify
from autotune.application.verbs.verify import _check_same_mpi, _payback, _text, memory_share, page_fault_s
from autotune.application.verification import ApplicationDecision, ApplicationVerdict, judged
from autotune.cli import main
from autotune.errors import UserError
from autotune.stacks.installation import Installation
from autotune.verification.sequential import SequentialDesign
from tests.golden.test_campaigns import GOLDEN
from tests.schemas import answer


@pytest.mark.parametrize(
    ("stack", "measured", "fits"),
    [
        ("openmpi", "Open MPI 4.1.4", True),
        ("openmpi", "Open MPI 5.0.11", False),
        ("mpich", "MPICH 4.0.2", False),
        ("recorded", "", True),
    ],
)
def test_files_of_another_mpi_are_not_put_into_force(stack, measured, fits):
    here = Installation("openmpi", "4.1.4", Path("/usr/bin/mpirun"), Path("/usr/lib/libmpi.so.40"), "site")
    site = SimpleNamespace(findings=(("MPI", measured),))
    campaign = SimpleNamespace(about=SimpleNamespace(bench=site, space=SimpleNamespace(stack=stack)))
    if fits:
        _check_same_mpi(campaign, here)
        return
    with pytest.raises(UserError, match=r"openmpi 4\.1\.4, the campaign was measured on") as refused:
        _check_same_mpi(campaign, here)
    assert measured in refused.value.message


def test_the_answer_for_programs_has_the_time_of_each_run(tmp_path, monkeypatch, capsys):
    (campaign := tmp_path / "local").mkdir(mode=0o700)
    shutil.copy(GOLDEN / "local" / "journal.jsonl", campaign)
    monkeypatch.setattr(verify, "installation_of", lambda _: SimpleNamespace(flavour="openmpi"))
    monkeypatch.setattr(verify, "_check_same_mpi", lambda *_: None)

    def ran(words, installation, env, *_):
        return SimpleNamespace(exit_code=0, seconds=2 if env else 3, page_faults=0)

    monkeypatch.setattr(verify, "run", ran)
    assert main(["verify", str(campaign), "--app", "--launches", "4", "--json", "--", "mpirun", "a"]) == 0
    assert answer(capsys.readouterr().out)["runs"] == {"default": [3, 3], "files": [2, 2]}


@pytest.mark.parametrize(
    ("default", "tuned", "saved"),
    [
        ([2800, 2790], [172_000, 173_600], -0.085),
        ([172_000, 173_600], [2800, 2790], 0.085),
        ([2800, 2790], [2795, 172_000], 0.0),  # as often as not by default too
        ([2800, 2790], [3900, 4000], 0.0),  # what another library takes as it starts
    ],
)
def test_page_faults_count_where_all_runs_have_more_and_someone_would_see_it(default, tuned, saved):
    assert memory_share((default, tuned), 5e-7) == pytest.approx(saved, abs=1e-4)


def test_the_first_touch_of_a_page_takes_longer_than_a_byte_written():
    assert 5e-9 < page_fault_s() < 1e-3


def test_what_page_faults_cost_is_told_beside_what_calls_were_predicted_to_save():
    """CoMD takes its buffers anew for each exchange."""
    runs = [(0, False, 2.30), (0, True, 2.42), (1, True, 2.43), (1, False, 2.31)]
    runs += [(2, False, 2.29), (2, True, 2.41), (3, True, 2.42), (3, False, 2.30)]
    verdict = judged(runs, False, SequentialDesign(alpha=0.05))
    document = {
        "stamp": "", "saved": list(verdict.saved), "campaign_s": 60.0, "predicted": "",
        "predicted_share": [0.001, 0.0, 0.004], "measured_share": list(verdict.saved_share),
        "page_faults": [2800, 172_000], "page_faults_share": -0.049,
        "agreement": "inconclusive", "recorded_runs": 5,
    }  # fmt: skip
    said = _text(document, verdict, is_time=True)
    assert "of which -4.9% are page faults, 2,800 by default and 172,000 with the files" in said
    assert "page faults" not in _text({**document, "page_faults_share": 0.0}, verdict, is_time=True)


@pytest.mark.parametrize(
    "said, ends, end",
    [
        ("BETTER", (1.6, 1.3, 1.9), "paid back after 27 runs (22 … 44)"),
        ("SAME", (1.0, 0.995, 1.0037), "whether it is paid back is not known, 2713 runs at the earliest"),
        ("INCONCLUSIVE", (1.1, 0.0, 1.9), "whether it is paid back is not known, 22 runs at the earliest"),
        ("WORSE", (0.8, 0.7, 0.9), "nothing pays it back"),
    ],
)
def test_nothing_is_said_of_paying_back_beyond_what_the_runs_tell(said, ends, end):
    verdict = ApplicationVerdict(ApplicationDecision[said], 8, *ends, 10.0, 9.0)
    assert _payback(100.0, verdict).endswith(end)
