"""Against the log of a real run (UCX 1.20.1, two ranks of one node)."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.probe import ucx

LOG = (Path(__file__).parent / "ucx_1_20.txt").read_text()


@pytest.fixture
def report():
    return replace(ucx.read_report(LOG), warnings=())


def test_lanes_and_warnings_are_read():
    found = ucx.read_report(LOG)
    assert found.lanes == {
        "self": ("self/memory", "cma/memory"),
        "intra-node": ("sysv/memory", "cma/memory"),
    }
    assert [warning.partition(",")[0] for warning in found.warnings] == [
        "transport 'foo' is not available",
        "unused environment variable: UCX_ZCOPY_TRESH (maybe: UCX_BCOPY_THRESH",
    ]


def test_ranges_of_protocols_are_read(report):
    assert report.first_rendezvous("intra-node") == (65536, 65536, 65536)
    assert report.first_rendezvous("inter-node") == ()
    tag = [p for p in report.protocols if p.configuration == "intra-node"][:4]
    assert [(p.first_bytes, p.name) for p in tag] == [
        (0, "eager short"),
        (93, "eager copy-in copy-out"),
        (8249, "multi-frag eager copy-in copy-out"),
        (65536, "rendezvous zero-copy read from remote"),
    ]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"UCX_TLS": "self,sysv,cma"},
        {"UCX_TLS": "self,sm"},
        {"UCX_TLS": "all"},
        {"UCX_TLS": "^posix,tcp"},
        {"UCX_RNDV_THRESH": "64k"},
        {"UCX_RNDV_THRESH": "65536"},
        {"UCX_RNDV_THRESH": "intra:64kb,inter:1m"},
        {"UCX_RNDV_THRESH": "auto"},
        {"UCX_ZCOPY_THRESH": "4k"},
    ],
)
def test_what_was_done_as_asked_is_no_contradiction(report, asked):
    assert ucx.contradiction(report, asked) == ""


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"UCX_TLS": "self,posix,cma"}, "intra-node runs over sysv/memory"),
        ({"UCX_TLS": "tcp,self"}, "runs over cma/memory"),
        ({"UCX_TLS": "^cma"}, "runs over cma/memory"),
        ({"UCX_RNDV_THRESH": "16k"}, "intra-node rendezvous begins at 65536, 65536, 65536"),
        ({"UCX_RNDV_THRESH": "inf"}, "rendezvous begins at 65536"),
        ({"UCX_RNDV_THRESH": "intra:16k,inter:64k"}, "rendezvous begins at 65536"),
    ],
)
def test_what_was_done_otherwise_is_said(report, asked, words):
    assert words in ucx.contradiction(report, asked)


INFINIBAND = ucx.UcxReport({"inter-node": ("rc_mlx5/mlx5_0:1", "ud_mlx5/mlx5_0:1")}, (), ())


@pytest.mark.parametrize(
    ("asked", "as_asked"),
    [
        ("ib,self,sm", True),
        ("rc,self", True),
        ("rc_x", True),
        ("rc_v", False),
        ("^dc", True),
        ("^rc", False),
        ("^ib", False),
        ("tcp,self", False),
        ("dc_x,self", False),
        ("\\rc", True),
    ],
)
def test_names_of_families_of_transports(asked, as_asked):
    assert (ucx.contradiction(INFINIBAND, {"UCX_TLS": asked}) == "") is as_asked


def test_a_misspelt_variable_counts_only_if_it_was_asked_for():
    found = replace(ucx.read_report(LOG), warnings=ucx.read_report(LOG).warnings[1:])
    assert "UCX_ZCOPY_TRESH" in ucx.contradiction(found, {"UCX_ZCOPY_TRESH": "4k"})
    assert ucx.contradiction(found, {"UCX_ZCOPY_THRESH": "4k"}) == ""


def test_a_missing_transport_always_counts():
    assert "'foo' is not available" in ucx.contradiction(ucx.read_report(LOG), {})


def test_without_a_connection_ucx_is_not_in_use():
    assert "not in use" in ucx.contradiction(ucx.read_report(""), {})


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("8184", 8184), ("16K", 16384), ("64kb", 65536), ("1m", 1 << 20), ("2GB", 2 << 30)],
)
def test_sizes(text, size):
    assert ucx.size_bytes(text) == size


def test_no_size():
    with pytest.raises(ValueError, match="auto"):
        ucx.size_bytes("auto")


@pytest.mark.parametrize(
    ("text", "set_"), [(json.dumps({"expect": {"ucx": True}}), True), ("{", False), ("[]", False)]
)
def test_ucx_is_listened_to_when_the_request_wants_it(tmp_path, monkeypatch, text, set_):
    for name in ("UCX_LOG_FILE", "UCX_LOG_LEVEL", "UCX_PROTO_INFO"):
        monkeypatch.setenv(name, "before")
    (tmp_path / "request.json").write_text(text)
    log = ucx.listen(tmp_path)
    assert (os.environ["UCX_LOG_LEVEL"] == "info") is set_
    assert os.environ["UCX_LOG_FILE"] == (str(log) if set_ else "before")
    assert log is None or log.parent == tmp_path


def test_a_node_that_does_not_see_the_request_listens_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("UCX_LOG_FILE", "before")
    log = ucx.listen(tmp_path / "nowhere")
    assert os.environ["UCX_LOG_FILE"] == str(log)
    assert log.parent.is_dir()
