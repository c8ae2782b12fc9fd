"""Nothing that is read gives a traceback: it is taken, or refused by an error of ours.

``make fuzz`` draws 100,000 inputs (``FUZZ_EXAMPLES`` of each reader); ``tests/data/corpus/READER/`` keeps
what once failed.
"""

import contextlib
import json
import os
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from autotune.application.diagnosis_text import floor_text
from autotune.application.documents import FLOOR, LEARNED, RUN, read_floor, run_in
from autotune.application.floor import Floor
from autotune.application.profiles import read_profile
from autotune.application.recording import mean_of, read_recording
from autotune.application.recording_page import recording_page
from autotune.application.verbs.run import learned_in
from autotune.campaign.directory import read_campaign
from autotune.errors import AutotuneError, UserError
from autotune.exporters import exporter
from autotune.exporters.document import JsonDocument, recommendation_of
from autotune.exporters.export_check import PROOF_FILE, Proof, refuted
from autotune.guard.kept import KEPT, NIGHTS, comparable, read_kept, read_nights, slots_of
from autotune.guard.verdict import judge
from autotune.history.folder import WISHES
from autotune.history.journal import FILE
from autotune.probe.protocol import RESULT, SAMPLES, CellSamples, ProbeRequest, ProbeResult, SweptChoice
from autotune.recommend.recommendation import Gain
from autotune.replay.recorded_table import read_recorded
from autotune.resources import conf_text, space_text
from autotune.scenario import defaults, restored, scenario_of
from autotune.scenario.whole_site import Wishes
from autotune.simulate.machine import machine_from
from autotune.site.costs import STARTS, read_starts
from autotune.site.directory import read_document, read_site
from autotune.site.load import Loads
from autotune.space.loader import load_space
from autotune.structure import plain
from autotune.tables.importers import read as read_log
from autotune.views.report.sections import run_section
from tests.golden.test_campaigns import GOLDEN
from tests.unit.guard.nights_of import Machine
from tests.unit.guard.test_kept import WHAT

DATA = Path(__file__).parents[1] / "data"
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "12"))
WILD = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 0.5, -0.0, 1e308, 1e-320, float("nan")),
    *(float("inf"), "", "0", "-1", "nan", "inf", "auto", "1k", "9" * 400, "x" * 5000, "a\nb", "\x00"),
    *("\ud800", "é", "$(id)", [], {}, [[]], [None], {"a": None}, {"": {}}, {"event": "trial"}),
)
TOKENS = (
    *(b"", b"\x00", b"\xff", b"\n", b",", b";", b"\t", b'"', b"-1", b"nan", b"1e999", b"1e400"),
    *(b"9" * 50, b"[" * 3000, b"[" * 100_000),
)


def journal(text: bytes, folder: Path) -> None:
    (folder / FILE).write_bytes(text)
    read_campaign(folder).conclude()


def result(text: bytes, folder: Path) -> None:
    _launch(folder)
    (folder / RESULT).write_bytes(text)
    ProbeResult.read(folder)


def samples(text: bytes, folder: Path) -> None:
    _launch(folder)
    (folder / SAMPLES).write_bytes(text)
    ProbeResult.read(folder)


def table(text: bytes, folder: Path) -> None:
    (folder / "table.csv").write_bytes(text)
    read_recorded(folder / "table.csv", collective="allreduce")


def machine(text: bytes, _: Path) -> None:
    if isinstance(document := _yaml(text), dict):
        machine_from(document)


def scenario(text: bytes, _: Path) -> None:
    if isinstance(document := _yaml(text), dict):
        document.pop("defaults", None)
        scenario_of({**defaults(), "campaign": {"dir": "here", "fresh": False}, **document}, "fuzzed")


def _yaml(text: bytes) -> object:
    """What OmegaConf hands over to these two: it has read the text, and refused what is none, by then."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _launch(folder: Path) -> None:
    cells = [CellSamples("allreduce", 2, size, {}, np.full(6, 1e-6)) for size in (8, 64)]
    ProbeResult("ok", cells=tuple(cells), hosts=("here",), library="none").write(folder)


def _journal() -> bytes:
    """The beginning of a journal whose lines are not sealed: what a seal refuses tells nothing."""
    return b"".join((GOLDEN / "simulated" / FILE).read_bytes().splitlines(keepends=True)[:11])


def _results(folder: Path) -> tuple[bytes, bytes]:
    _launch(folder)
    return (folder / RESULT).read_bytes(), (folder / SAMPLES).read_bytes()


def _request() -> bytes:
    sampling = {"budget_s": 1.0, "precision": 0.05, "min_samples": 5, "max_samples": 50}
    swept = {"allreduce": (SweptChoice({"algorithm": "ring"}),)}
    how = {"timing": "auto", "sync": "barrier", "check": True}
    return ProbeRequest(("allreduce",), (8, 64), swept, **sampling, **how).to_json().encode()


def recording(text: bytes, _: Path) -> None:
    recorded = read_recording(_text(text), "fuzzed")
    recording_page(recorded, None, "fuzzed")
    mean_of([recorded] if recorded.runs else [recorded, recorded])


def recommendation(text: bytes, folder: Path) -> None:
    found = recommendation_of(_text(text))
    for name in ("json", "summary", "env_sh", "openmpi_mca"):
        with contextlib.suppress(UserError):  # a format that cannot say it
            exporter(name).export(found, folder)


def of_a_run(text: bytes, folder: Path) -> None:
    (folder / "run.json").write_bytes(text)
    run_section(run_in(folder / "run.json"))


def learned(text: bytes, folder: Path) -> None:
    (folder / "learned.json").write_bytes(text)
    learned_in(folder / "learned.json", "openmpi 5.0.11")


def floor(text: bytes, _: Path) -> None:
    floor_text(read_floor(_text(text), "fuzzed"))


def kept(text: bytes, folder: Path) -> None:
    (folder / KEPT).write_bytes(text)
    (folder / KEPT).chmod(0o600)
    found = read_kept(folder)
    restored(found.scenario)
    recommendation_of(json.dumps(found.recommendation))
    hash(str(found.meant))


def nights(text: bytes, folder: Path) -> None:
    (folder / NIGHTS).write_bytes(text)
    if known := comparable(read_nights(folder)):
        judge(known)
    slots_of(known)


def wishes(text: bytes, folder: Path) -> None:
    (site := folder / "site").mkdir(exist_ok=True)
    (site / WISHES).write_bytes(text)
    read_site(site)


def starts(text: bytes, folder: Path) -> None:
    (folder / STARTS).write_bytes(text)
    read_starts(folder)


def loads(text: bytes, folder: Path) -> None:
    (folder / "loads.json").write_bytes(text)
    read_document(folder / "loads.json", Loads)


def proof(text: bytes, folder: Path) -> None:
    (folder / PROOF_FILE).write_bytes(text)
    refuted(folder)


def _text(text: bytes) -> str:
    return text.decode(errors="replace")


def _recommended() -> bytes:
    campaign = read_campaign(GOLDEN / "simulated")
    return JsonDocument().export(campaign.recommended(), Path())["recommendation.json"].encode()


def _run_document() -> bytes:
    cell = {"collective": "allreduce", "lowest_bytes": 8, "ranks": 4, "one_node": True, "calls": 90}
    cell |= {"default_s": 2e-6, "waiting_s": 0.0, "settled_at": 60, "algorithm": "ring", "speedup": 1.4}
    cell |= {"speedup_95": [1.3, 1.5], "calls_decided": 30, "saved_s": 1e-5}
    numbers = {"run_s": 2.0, "budget": 0.01, "spent_s": 0.1, "saved_s": 0.2, "ranks": 4}
    words = {"format": RUN, "command": ["mpirun", "./a"], "date": "2026-01-01", "stack": "openmpi 5.0.11"}
    words |= {"state": "on", "ended": "finalized", "dry": False}
    return json.dumps(words | numbers | {"cells": [cell, {**cell, "speedup_95": [None, None]}]}).encode()


def _learned() -> bytes:
    cell = {"stack": "openmpi 5.0.11", "collective": "allreduce", "bin": 3, "ranks": 4, "algorithm": "ring"}
    return json.dumps({"format": LEARNED, "cells": [cell, {**cell, "bin": 4}]}).encode()


def _floor() -> bytes:
    gains = (Gain(("allreduce", 4, 8), 1e-6, 1e-8, 2e-6, 1e-8), Gain(("bcast", 4, 8), 1e-6, 1e-8, 1e-6, 1e-8))
    own = Floor(gains, ("algorithm=ring", ""), ("UCX_TLS=sm",), 6, 3.5, "openmpi", "2026-01-01", 1, "12ab")
    return json.dumps({"format": FLOOR, **plain(own)}).encode()


def _kept() -> bytes:
    scenario = json.loads(_journal().splitlines()[1])["scenario"]
    recommended = json.loads(_recommended())
    return json.dumps(plain(replace(WHAT, scenario=scenario, recommendation=recommended))).encode()


def _nights() -> bytes:
    made = Machine().nights(4, np.random.default_rng(1), each=4)
    return b"".join(json.dumps(plain(night)).encode() + b"\n" for night in made)


def _wishes() -> bytes:
    return json.dumps(plain(Wishes(("allreduce",), (1, 2), (4,), None, (8, 64)))).encode()


def _starts() -> bytes:
    launch = {"took_s": 1.0, "sampled_s": 0.5, "calls_s": {"allreduce": {"8": 1e-6, "64": 2e-6}}}
    return json.dumps({"1x4": {"launch": launch, "sweep": launch}}).encode()


def _proof() -> bytes:
    return json.dumps({**asdict(Proof(3, True, 2, 2, 0)), "holds": True}).encode()


_CSV = b"alg,tls,message_bytes,latency_us\nring,all,8,1.5\nring,sm,8,1.2\ntree,all,8,1.9\ntree,sm,8,1.1\n"
_PROFILE = b"size,count,np\n8,100,2\n1K,20,\n"

READERS: dict[str, tuple[Callable[[Path], bytes], Callable[[bytes, Path], object]]] = {
    "journal": (lambda _: _journal(), journal),
    "space": (
        lambda _: space_text("openmpi_ucx_cluster").encode(),
        lambda text, _: load_space(text.decode(errors="replace"), "fuzzed"),
    ),
    "machine": (lambda _: conf_text("machine/ethernet_tcp_32").encode(), machine),
    "request": (lambda _: _request(), lambda text, _: ProbeRequest.from_json(text.decode(errors="replace"))),
    "result": (lambda folder: _results(folder)[0], result),
    "samples": (lambda folder: _results(folder)[1], samples),
    "log": (
        lambda _: (DATA / "logs/osu5.6.2_allreduce.txt").read_bytes(),
        lambda text, _: read_log(text.decode(errors="replace"), "fuzzed"),
    ),
    "profile": (lambda _: _PROFILE, lambda text, _: read_profile(text.decode(errors="replace"), "fuzzed")),
    "table": (lambda _: _CSV, table),
    "recording": (lambda _: (DATA / "recordings/calls.json").read_bytes(), recording),
    "recommendation": (lambda _: _recommended(), recommendation),
    "run": (lambda _: _run_document(), of_a_run),
    "learned": (lambda _: _learned(), learned),
    "floor": (lambda _: _floor(), floor),
    "kept": (lambda _: _kept(), kept),
    "nights": (lambda _: _nights(), nights),
    "wishes": (lambda _: _wishes(), wishes),
    "starts": (lambda _: _starts(), starts),
    "loads": (lambda _: b'{"found": []}', loads),
    "proof": (lambda _: _proof(), proof),
    "scenario": (lambda _: conf_text("conf/allreduce_local").encode(), scenario),
}
"""Name → an input that is well, and what reads inputs."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One directory for all inputs: the user's own."""
    made = tmp_path_factory.mktemp("read")
    made.chmod(0o700)
    return made


@st.composite
def bytes_of(draw, seed: bytes) -> bytes:
    """The input with some places cut out, doubled or replaced."""
    text = seed
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 1, 1, 8, 200])))
        there = text[start:end]
        new = draw(st.sampled_from([*TOKENS, there * 2]) | st.binary(max_size=3))
        text = text[:start] + new + text[end:]
    return text


@st.composite
def values_of(draw, lines: tuple[str, ...]) -> bytes:
    """The input of JSON or YAML values, one a line or one in all, with wild ones in their places."""
    documents = [json.loads(line) for line in lines]
    for _ in range(draw(st.integers(1, 3))):
        node = documents
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(node[key], dict | list) and node[key] and draw(st.integers(0, 5)):
                node = node[key]
                continue
            if draw(st.integers(0, 5)):
                node[key] = deepcopy(draw(st.sampled_from(WILD)))
            else:
                del node[key]
            break
    return "".join(json.dumps(document) + "\n" for document in documents).encode()


@cache
def _lines(name: str, seed: bytes) -> tuple[str, ...]:
    """The values in an input, as JSON; none in other inputs."""
    if name in ("journal", "nights"):
        return tuple(seed.decode().splitlines())
    if name not in ("samples", "log", "profile", "table"):
        return (json.dumps(yaml.safe_load(seed), default=str),)
    return ()


def _survives(name: str, text: bytes, folder: Path) -> None:
    try:
        READERS[name][1](text, folder)
    except AutotuneError as exc:
        assert str(exc)


@pytest.mark.parametrize("name", READERS)
@settings(
    max_examples=EXAMPLES, database=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck)
)
@given(data=st.data())
def test_no_input_gives_a_traceback(name, folder, data):
    seed = READERS[name][0](folder)
    inputs = [bytes_of(seed)]
    if lines := _lines(name, seed):
        inputs += 2 * [values_of(lines)]
    text = data.draw(st.one_of(inputs))
    _survives(name, text, folder)


@pytest.mark.parametrize("name", READERS)
def test_what_is_well_is_read(name, folder):
    seed, read = READERS[name]
    read(seed(folder), folder)


CORPUS = sorted((DATA / "corpus").glob("*/*"))


@pytest.mark.parametrize("path", CORPUS, ids=[f"{path.parent.name}-{path.stem}" for path in CORPUS])
def test_what_once_failed_is_refused(path, folder):
    _survives(path.parent.name, path.read_bytes(), folder)
