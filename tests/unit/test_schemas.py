"""Documents for programs and editors: what verbs print has a schema, and so have the YAML files of users."""

import ast
import json
import shutil
import sys
from dataclasses import asdict
from importlib import import_module

import pytest
import yaml
from jsonschema import Draft202012Validator

from autotune.application.diagnosis import COLLECTIVE, Advice, Diagnosis, Late, Loss
from autotune.application.diagnosis_text import document as diagnosis_document
from autotune.application.floor import Floor
from autotune.application.recorded_time import LateRank
from autotune.cli import main
from autotune.commands.verify import _document as verified_slot
from autotune.recommend.other_calls import OtherCall, OtherDecision
from autotune.recommend.recommendation import Gain
from autotune.resources import folder
from autotune.verification.comparison import Comparison, SlotDecision
from autotune.views.documents import SCHEMAS, answer_text
from tests.golden.test_campaigns import GOLDEN
from tests.schemas import FOLDER, answer, schema
from tests.unit.test_architecture import MODULES
from tests.unit.test_docs import ROOT

EDITORS = {
    "scenario": [*sorted((folder("conf") / "conf").glob("*.yaml")), folder("conf") / "config.yaml"],
    "space": sorted(folder("search_spaces").glob("*.yaml")),
}
"""Schemas of files that users write → files that we ship."""

INSIDE = ["probe.hybrid", "launchers._health"]
"""Programs whose one line of JSON is read by the process of ours that launched them, and not by users."""


def test_every_document_has_a_schema_of_its_version():
    assert {path.name.removesuffix(".schema.json") for path in FOLDER.iterdir()} == {*SCHEMAS, *EDITORS}
    for name in (*SCHEMAS, *EDITORS):
        Draft202012Validator.check_schema(schema(name))
    for name, version in SCHEMAS.items():
        assert schema(name)["properties"]["schema"]["const"] == f"autotune/{name}/{version}"


def test_what_is_printed_for_programs_goes_through_one_function():
    """And each document of the table is printed somewhere."""
    named, raw = set(), []
    for module in MODULES:
        for call in module.calls:
            called, text = ast.unparse(call.func), ast.unparse(call)
            if called == "answer_text" and isinstance(call.args[0], ast.Constant):
                named.add(call.args[0].value)
            if called.endswith("stdout.write") and ("json_text(" in text or "json.dumps(" in text):
                raw.append(module.name)
        named |= {word for word in ("verify", "verify-app") if f'write_result("{word}"' in module.text}
    assert (named, raw) == ({*SCHEMAS}, INSIDE)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with both recorded campaigns and a journal of nights."""
    for name in ("local", "simulated"):
        (tmp_path / name).mkdir(mode=0o700)
        shutil.copy(GOLDEN / name / "journal.jsonl", tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


PLANNED = "plan conf=allreduce_8node hydra/launcher=simulated sizes=[8]"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("compare local simulated", "compare"),
        ("compare --winners local simulated", "compare-winners"),
        ("compare --guidelines local", "compare-guidelines"),
        (PLANNED, "plan"),
    ],
)
def test_what_is_printed_is_as_its_schema_says(words, name, here, capsys):
    assert main([*words.split(), "--json"]) in (0, 1)
    assert answer(capsys.readouterr().out)["schema"] == f"autotune/{name}/1"


def test_a_plan_says_to_programs_what_it_says_to_people(here, capsys):
    assert main(PLANNED.split()) == 0
    shown = capsys.readouterr().out
    assert main([*PLANNED.split(), "--json", "-m", "seed=1,2"]) == 0
    told = answer(capsys.readouterr().out)
    assert len(told["campaigns"]) == 2
    phases = {share["phase"]: share["node_hours"] for share in told["campaigns"][0]["phases"]}
    for phase, (least, most) in phases.items():
        assert any(
            line.startswith(phase) and f"{least:.2f} … {most:.2f}" in line for line in shown.splitlines()
        )
    assert told["node_hours"] == pytest.approx([2 * sum(ends) for ends in zip(*phases.values(), strict=True)])
    assert told["sites"] == []


SLOT = ("allreduce", 2, 64)


def test_a_verification_is_as_its_schema_says():
    slot = Comparison(SLOT, 8, 0.1, 0.01, 0.08, 0.12, SlotDecision.STILL_BETTER)
    call = OtherCall("bcast", 8, 1e-6, 1e-6, 1.0, 0.9, 1.1, 0.01, 0.9, OtherDecision.NOT_SLOWER)
    heading = {"campaign": "c", "stamp": "", "tuned": "c", "against": ["untouched"], "notes": []}
    made = {"launches": 16, "other_loop": "", "failures": "", "other_calls": [asdict(call)]}
    for was_better, other in ((True, None), (False, slot)):
        rows = [verified_slot(slot, was_better, other)]
        answer(answer_text("verify", {**heading, **made, "overall": rows[0], "slots": rows}))
    answer(answer_text("verify", {**heading, **made, "overall": None, "slots": []}))


@pytest.mark.parametrize("measured", [False, True])
def test_a_diagnosis_is_as_its_schema_says(measured):
    late = Late("same", None, 0.9, (LateRank(1, 0.9, 2.0, 0.1),))
    losses = (
        Loss(COLLECTIVE, "allreduce", False, 2.0, 64.0, win_s=(1.0, 0.5, 1.5), times=2.0),
        Loss(COLLECTIVE, "allreduce", True, 1.0, None, late=late),
    )
    win = (0.1, 0.05, 0.15) if measured else None
    found = Diagnosis(10.0, (3.0, 2.9, 3.1), losses, Advice.TUNE, win, 0.2, 0.0, 1, ("NCCL",), True)
    floor = Floor((Gain(SLOT, 1e-6, 1e-8, 2e-6, 1e-8),), ("pml=ob1",), ("pml=ob1",), 4, 3.0)
    document = diagnosis_document(found, floor if measured else None, "calls.json")
    assert answer(answer_text("diagnose", document))["verdict"] == "tune"


@pytest.fixture(scope="module")
def generated():
    """Path → text of the schemas that follow from dataclasses."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return dict(import_module("_schemas").texts())
    finally:
        sys.path.remove(str(ROOT / "docs"))


def test_the_schemas_for_editors_are_those_of_the_code(generated):
    assert {path.name for path in generated} == {f"{name}.schema.json" for name in EDITORS}
    for path, text in generated.items():
        assert path.read_text("utf-8") == text, f"python docs/{path.parent.name}.py writes it anew"


@pytest.mark.parametrize("name", EDITORS)
def test_a_schema_for_editors_follows_from_public_names(name):
    """Of a private table no reader of its module sees that a published schema changes with it."""
    tree = ast.parse((ROOT / "docs" / "_schemas.py").read_text("utf-8"))
    imported = {f"{n.module}.": n.names for n in tree.body if isinstance(n, ast.ImportFrom)}
    of_room = [names for module, names in imported.items() if module.startswith(f"autotune.{name}.")]
    assert of_room
    assert not [alias.name for names in of_room for alias in names if alias.name.startswith("_")]


def faults(name, document):
    return [fault.json_path for fault in Draft202012Validator(schema(name)).iter_errors(document)]


@pytest.mark.parametrize(
    ("name", "path"),
    [(n, path) for n in EDITORS for path in EDITORS[n]],
    ids=lambda item: getattr(item, "stem", item),
)
def test_a_shipped_file_is_right_in_an_editor_which_finds_the_schema(name, path):
    text = path.read_text("utf-8")
    assert faults(name, yaml.safe_load(text)) == []
    if path.stem != "config":
        (place,) = [line.partition("$schema=")[2] for line in text.splitlines()[:2] if "$schema=" in line]
        assert (path.parent / place).resolve() == FOLDER / f"{name}.schema.json"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("bugdet: {launches: 3}", "$"),
        ("budget: {lanches: 3}", "$.budget"),
        ("budget: {launches: many}", "$.budget.launches"),
        ("budget: {launches: 2.5}", "$.budget.launches"),
        ("budget: {launches: 0}", "$.budget.launches"),
        ("seed: -1", "$.seed"),
        ("confirm: {share: 1.5}", "$.confirm.share"),
        ("collective: allredcue", "$.collective"),
        ("collective: [bcast, allredcue]", "$.collective"),
        ("mpi: {from: apt}", "$.mpi.from"),
        ("launch: {with: mpiexec}", "$.launch.with"),
        ("verify: {other_loop: maybe}", "$.verify.other_loop"),
        ("probe: {estimator: mode}", "$.probe.estimator"),
        ("proposer: {name: axe}", "$.proposer.name"),
        ("sizes: [8, much]", "$.sizes"),
        ("site: {setting: bset}", "$.site.setting"),
        ("fix: UCX_TLS", "$.fix"),
        ("screening: {enabled: 3}", "$.screening.enabled"),
    ],
)
def test_a_mistake_in_a_scenario_is_shown_where_it_is(text, place):
    assert faults("scenario", yaml.safe_load(text)) == [place]


@pytest.mark.parametrize(
    "text",
    [
        "budget: {launches: '${oc.env:N}', seconds: 1e3, node_hours: null}",
        "collective: [bcast, allreduce]\nsizes: 8..1M*4\nexport: json, summary",
        "sizes: [8, 64k, 1M]\nfix: {UCX_TLS: all}\nspace: ???",
        "probe: {precision: 1e-2}\ncluster: {hosts: node1, ppn: null}",
    ],
)
def test_what_the_program_takes_is_right_in_an_editor(text):
    assert faults("scenario", yaml.safe_load(text)) == []


GOOD = "parameters: {a: {values: [1, 2], level: launch, apply: {env: {A: '{value}'}}}}"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("stack: openmpi", "$"),
        ("parameters: {}", "$.parameters"),
        (GOOD.replace("values", "value"), "$.parameters.a"),
        (GOOD.replace("launch", "lunch"), "$.parameters.a.level"),
        (GOOD.replace("level: launch", "ordered: 3"), "$.parameters.a.ordered"),
        (GOOD.replace("env", "environment"), "$.parameters.a.apply"),
        (GOOD.replace("[1, 2]", "{b: 1}"), "$.parameters.a.values"),
        (f"{GOOD}\nparameter: {{}}", "$"),
    ],
)
def test_a_mistake_in_a_space_is_shown_where_it_is(text, place):
    assert faults("space", yaml.safe_load(GOOD)) == []
    assert place in faults("space", yaml.safe_load(text))


def test_a_document_with_a_key_that_no_schema_has_is_noticed():
    document = {"nights": [{"date": "d", "code": 0, "kept": True, "launches": 1, "state": "s", "said": []}]}
    assert answer(answer_text("guard-history", document))["nights"] == document["nights"]
    document["nights"][0]["more"] = 1
    with pytest.raises(Exception, match="Additional properties"):
        answer(answer_text("guard-history", document))
    assert json.loads(answer_text("guard-history", {}))["schema"] == "autotune/guard-history/1"
