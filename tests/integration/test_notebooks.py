"""Notebooks run as they are, and what they find with pandas is what the program finds."""

import csv
import json
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from autotune.history.objectives import Objective, envelope
from autotune.history.trial import Cell, Estimate, History, Observation, Phase, Status, Subject, Trial
from autotune.recommend.front import candidates, pareto_front, ranked
from autotune.space import Level, Parameter, Point, Space

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
JOB = ("UCX_TLS", "UCX_RNDV_THRESH", "UCX_ZCOPY_THRESH", "coll_han", "bind_to")

_ANSWER = """
import json
print(json.dumps({
    "recommended": recommended,
    "n_front": len(front),
    "tuned_us": {int(size): us for size, us in table["tuned_us"].items()},
    "default_us": {int(size): us for size, us in table["default_us"].items()},
}))
"""


def executed(path):
    """The notebook after running all of its cells and one that prints what they found, and this answer."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(_ANSWER))
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(path.parent)}})
    client.execute()
    return notebook, json.loads(notebook.cells[-1].outputs[0].text)


def recorded(path):
    """The history and the space of a table that ``history`` wrote."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    values = {name: list(dict.fromkeys(row[name] for row in rows)) for name in JOB}
    job = [Parameter(name, tuple(found), rows[0][name]) for name, found in values.items()]
    choices = tuple(dict.fromkeys(row["algorithm"] for row in rows if row["algorithm"]))
    algorithm = Parameter("algorithm", choices, "default", Level.CALL, per_size=True)
    segments = tuple(dict.fromkeys(row["segsize"] for row in rows if row["segsize"]))
    segsize = Parameter("segsize", segments, segments[0], Level.CALL, per_size=True)
    trials = {}
    for row in rows:
        trials.setdefault(int(row["trial"]), []).append(row)
    history = []
    for number, cells in trials.items():
        first = cells[0]
        point = Point.of({name: first[name] for name in JOB})
        trial = Trial(number, Phase(first["phase"]), point, Subject(first["subject"]))
        estimates = []
        for row in cells:
            choice = Point.of({name: row[name] for name in ("algorithm", "segsize") if row[name]})
            cell = Cell(row["collective"], int(row["comm_size"]), int(row["message_bytes"]), choice)
            figures = (float(row["median_us"]) * 1e-6, float(row["sem_us"]) * 1e-6, int(row["n"]))
            estimates.append(Estimate(cell, *figures, Status(row["status"])))
        history.append(Observation(trial, Status.OK, tuple(estimates)))
    return Space("recorded", (*job, algorithm, segsize)), History(tuple(history))


@pytest.mark.parametrize("name", ["reading_with_pandas"])
def test_a_notebook_finds_what_the_program_finds(name):
    notebook, answer = executed(NOTEBOOKS / f"{name}.ipynb")
    assert not any(
        output.output_type == "error" for cell in notebook.cells for output in cell.get("outputs", ())
    )

    space, history = recorded(NOTEBOOKS / "data" / "allreduce_local.csv")
    objectives = (Objective("latency", max_bytes=8192), Objective("bandwidth", min_bytes=65536))
    judged = candidates(objectives, space, history)
    best = ranked(objectives, judged)[0]
    default = envelope(space, history.untouched)
    assert answer["recommended"] == dict(best.point)
    assert answer["n_front"] == len(pareto_front(objectives, judged))
    for slot, winner in best.curve.items():
        assert answer["tuned_us"][str(slot[2])] == pytest.approx(winner.median_s * 1e6)
        assert answer["default_us"][str(slot[2])] == pytest.approx(default[slot].median_s * 1e6)


_CAMPAIGN = """
from autotune import Campaign
words = ("hydra/launcher=simulated", "proposer=random", "sizes=[8,4k]", "budget.launches=6")
campaign = Campaign("allreduce_8node", *words, "verify.enabled=false")
campaign.run(quiet={quiet})
"""


@pytest.mark.parametrize("quiet", [False, True])
def test_a_cell_shows_the_progress_of_its_campaign(quiet, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", "/no/such/slurm.conf")
    codes = (_CAMPAIGN.format(quiet=quiet), "campaign")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in codes])
    client = NotebookClient(notebook, timeout=250, resources={"metadata": {"path": str(tmp_path)}})
    drawn = []

    take = client.process_message

    def seen(message, cell, cell_index):
        content = message["content"]
        if message["msg_type"] in ("display_data", "update_display_data"):
            drawn.append((content["transient"]["display_id"], content["data"]["text/html"]))
        return take(message, cell, cell_index)

    client.process_message = seen
    client.execute()
    shown, last = notebook.cells[0].outputs, notebook.cells[1].outputs[0].data
    assert last["text/html"].startswith("<p>allreduce_8node: complete, ")
    if quiet:
        assert drawn == []
        assert [output.output_type for output in shown] == ["execute_result"]
        return
    assert len({display_id for display_id, _ in drawn}) == 1
    assert any("phase 1/" in html and "<progress" in html for _, html in drawn)
    assert drawn[-1][1] == ""
    assert "campaigns/allreduce_8node" in "".join(o.text for o in shown if o.output_type == "stream")


RUN = {path.stem for path in NOTEBOOKS.glob("*.ipynb")} - {"reading_with_pandas"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RUN))
def test_a_notebook_runs_to_its_end_and_uses_the_public_api(name, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", "/no/such/slurm.conf")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    before = {path.name for path in NOTEBOOKS.iterdir()}
    client = NotebookClient(notebook, timeout=250, resources={"metadata": {"path": str(NOTEBOOKS)}})
    client.execute()  # raises where a cell does
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert set(re.findall(r"^from (autotune[\w.]*) import", code, re.MULTILINE)) == {"autotune"}
    assert {path.name for path in NOTEBOOKS.iterdir()} == before  # campaigns are made elsewhere


def test_the_notebooks_are_those_of_the_book():
    assert {
        *("first_campaign", "screening_and_when_it_lies", "comparing_optimisers"),
        *("from_a_profile_to_tuning", "planning_8_and_1024_nodes"),
    } == RUN


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_saved_outputs_are_small_and_need_no_script(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert path.stat().st_size < 200_000
    kinds = {
        kind
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        for kind in output.get("data", ())
    }
    assert kinds <= {"text/plain", "text/html", "application/vnd.plotly.v1+json"}
    assert "<script" not in path.read_text()
