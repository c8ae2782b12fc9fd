"""JSON of ReFrame, Kernel Tuner and rows; PICO's CSV."""

import json
from pathlib import Path

import pytest

from autotune.errors import TableError
from autotune.importers import read, read_complete

LOGS = Path(__file__).parents[2] / "data" / "logs"


def records(name, change=lambda text: text, reader=read):
    return reader(change((LOGS / name).read_text()), name)


def test_reframe_report_with_sizes_from_properties_and_names():
    first, second, third = records("reframe4_osu.json")
    assert (first.collective, first.comm_size, first.message_bytes, first.latency_us) == (
        "allreduce",
        64,
        8,
        12.25,
    )
    assert dict(first.labels)["build_type"] == "cpu"
    assert first.version == "4.9.0"
    assert (second.latency_us, second.bandwidth_MBps) == (
        None,
        12000.5,
    )  # too slow, and measured all the same
    assert (third.collective, third.message_bytes, third.latency_us) == ("bcast", 65536, 500.0)


def broken(text):
    document = json.loads(text)
    case = document["runs"][0]["testcases"][0]
    case |= {
        "result": "fail",
        "fail_phase": "sanity",
        "fail_reason": "Segmentation fault\nmore",
        "perfvalues": {},
    }
    return json.dumps(document)


def test_a_failed_test_is_refused_or_left_out_by_name():
    with pytest.raises(
        TableError, match=r"^reframe4_osu.json: test osu_run_0: Segmentation fault\n"
    ) as caught:
        records("reframe4_osu.json", broken)
    assert "--complete" in caught.value.hint
    found, left_out = records("reframe4_osu.json", broken, read_complete)
    assert [its.benchmark for its in found] == ["osu_run_1", "osu_sizes"]
    assert left_out == ["reframe4_osu.json: test osu_run_0: Segmentation fault"]


def test_reframe_before_its_data_version_4():
    case = {"name": "t", "unique_name": "t", "result": "success", "fail_phase": None, "num_tasks": 2,
            "perfvars": [{"name": "latency_8", "value": 1.5, "unit": "us", "reference": 0}]}  # fmt: skip
    text = json.dumps({"session_info": {"version": "3.12"}, "runs": [{"testcases": [case]}]})
    (only,) = read(text, "allreduce.json")
    assert (only.message_bytes, only.latency_us, only.comm_size) == (8, 1.5, 2)


def test_kernel_tuner_cache_and_results():
    first, second, third = records("kernel_tuner_cache.json")
    assert (first.latency_us, first.min_us, first.max_us, first.iterations) == (40, 30, 50, 3)
    assert dict(third.labels) == {"device": "A4000", "block_size_x": "256", "tile": "2"}
    assert (second.message_bytes, second.benchmark) == (0, "Kernel Tuner vector_add")
    assert [its.latency_us for its in records("kernel_tuner_t4.json")] == [40, 25]


def test_failed_configurations_are_refused_or_left_out():
    def failing(text):
        return text.replace('"time": 0.025', '"time": "CompilationFailedConfig"')

    with pytest.raises(TableError, match="configuration 256,2: CompilationFailedConfig"):
        records("kernel_tuner_cache.json", failing)
    found, left_out = records("kernel_tuner_cache.json", failing, read_complete)
    assert len(found) == 2
    assert left_out == ["kernel_tuner_cache.json: configuration 256,2: CompilationFailedConfig"]
    with pytest.raises(TableError, match="configuration 2: compile"):
        text = (LOGS / "kernel_tuner_t4.json").read_text()
        read(
            text.replace('[0.02, 0.03]}, "invalidity": "correct"', '[]}, "invalidity": "compile"'), "t4.json"
        )


def test_a_cache_that_is_still_open_is_cut_off():
    def opened(text):
        return text[: text.rindex('"256,2"')]

    with pytest.raises(TableError, match="is cut off"):
        records("kernel_tuner_cache.json", opened)
    found, left_out = records("kernel_tuner_cache.json", opened, read_complete)
    assert len(found) == 2
    assert left_out == ["kernel_tuner_cache.json: its end is cut off"]


def test_rows_take_what_stands_above_them():
    first, second = records("osu7_rows.json")
    assert (first.collective, first.comm_size, first.message_bytes, first.latency_us) == (
        "bcast",
        16,
        1,
        2.51,
    )
    assert (second.min_us, second.max_us, second.iterations, second.version) == (1.8, 3.1, 1000, "7.5")
    assert second.labels == (("datatype", "MPI_CHAR"),)


def test_pico_raw_and_summary():
    (raw,) = records("512_allreduce_ring_int32.csv")
    assert (raw.collective, raw.comm_size, raw.message_bytes, raw.iterations) == ("allreduce", 2, 2048, 4)
    assert raw.latency_us == 2.55  # without the first fifth
    (row,) = records("pico_summary.csv")
    assert (row.comm_size, row.message_bytes, row.latency_us) == (32, 32, 9.0)
    assert dict(row.labels)["algorithm"] == "ring_over"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.json", '{"a": 1', r"x.json:1: no JSON: Expecting"),
        ("x.json", "[1, 2]", "JSON without a table of measurements"),
        ("x.json", '[{"size": 8, "latency": "fast"}]', "latency is 'fast'"),
        ("x.json", '[{"size": 8, "latency": NaN}]', "no JSON: NaN is no number"),
        ("x.json", '[{"size": 8, "latency": -1}]', "latency_us=-1"),
        ("x.json", '{"session_info": 1, "runs": [1]}', "a document of reframe that lacks or changes"),
        ("x.json", '{"kernel_name": "k", "cache": {}}', "lacks or changes 'tune_params_keys'"),
        ("8_ring.csv", "highest\n5\n", "name of PICO's file does not say"),
        ("8_ring_int32.csv", "highest\n5\n7,8\n", "8_ring_int32.csv:3: no row of 1 times"),
        ("8_ring_int32.csv", "highest\n", "a table without rows"),
    ],
)
def test_what_is_none_is_refused_with_its_place(name, text, message):
    with pytest.raises(TableError, match=message):
        read(text, name)
