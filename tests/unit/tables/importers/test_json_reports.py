"""JSON of ReFrame and rows."""

import json
from pathlib import Path

import pytest

from autotune.errors import TableError
from autotune.tables.importers import read

LOGS = Path(__file__).parents[3] / "data" / "logs"


def records(name, change=lambda text: text):
    return read(change((LOGS / name).read_text()), name)


def test_reframe_report_with_sizes_from_properties_and_names():
    first, second, third = records("reframe4_osu.json")
    said = (first.collective, first.comm_size, first.message_bytes, first.latency_us)
    assert said == ("allreduce", 64, 8, 12.25)
    assert dict(first.labels)["build_type"] == "cpu"
    assert first.version == "4.9.0"
    # The second test was too slow for ReFrame, and measured all the same.
    assert (second.latency_us, second.bandwidth_MBps) == (None, 12000.5)
    assert (third.collective, third.message_bytes, third.latency_us) == ("bcast", 65536, 500.0)


def broken(text):
    document = json.loads(text)
    case = document["runs"][0]["testcases"][0]
    case |= {"result": "fail", "fail_phase": "sanity", "perfvalues": {}}
    case["fail_reason"] = "Segmentation fault\nmore"
    return json.dumps(document)


def test_a_failed_test_is_refused_by_name():
    with pytest.raises(TableError, match=r"^reframe4_osu.json: test osu_run_0: Segmentation fault\n"):
        records("reframe4_osu.json", broken)


def test_reframe_before_its_data_version_4():
    case = {"name": "t", "unique_name": "t", "result": "success", "fail_phase": None, "num_tasks": 2,
            "perfvars": [{"name": "latency_8", "value": 1.5, "unit": "us", "reference": 0}]}  # fmt: skip
    text = json.dumps({"session_info": {"version": "3.12"}, "runs": [{"testcases": [case]}]})
    (only,) = read(text, "allreduce.json")
    assert (only.message_bytes, only.latency_us, only.comm_size) == (8, 1.5, 2)


def test_rows_take_what_stands_above_them():
    first, second = records("osu7_rows.json")
    said = (first.collective, first.comm_size, first.message_bytes, first.latency_us)
    assert said == ("bcast", 16, 1, 2.51)
    assert (second.min_us, second.max_us, second.iterations, second.version) == (1.8, 3.1, 1000, "7.5")
    assert second.labels == (("datatype", "MPI_CHAR"),)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.json", '{"a": 1', r"x.json:1: no JSON: Expecting"),
        ("x.json", "[1, 2]", "JSON without a table of measurements"),
        ("x.json", '[{"size": 8, "latency": "fast"}]', "latency is 'fast'"),
        ("x.json", '[{"size": 8, "latency": NaN}]', "no JSON: NaN is no number"),
        ("x.json", '[{"size": 8, "latency": -1}]', "latency_us=-1"),
        ("x.json", '{"session_info": 1, "runs": [1]}', "a report of ReFrame that lacks or changes"),
    ],
)
def test_what_is_none_is_refused_with_its_place(name, text, message):
    with pytest.raises(TableError, match=message):
        read(text, name)
