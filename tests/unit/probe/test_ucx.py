"""Against logs of real runs (UCX 1.20.1 and 1.13.1, two ranks of one node), and lines of other releases."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.probe import ucx
from autotune.probe.listening import listen

LOG = (Path(__file__).parent / "ucx_1_20.txt").read_text()


@pytest.fixture
def report():
    return replace(ucx.read_report(LOG), warnings=())


def test_lanes_warnings_and_ranges_of_protocols_are_read():
    report = ucx.read_report(LOG)
    lanes = {"self": ("self/memory", "cma/memory"), "intra-node": ("sysv/memory", "cma/memory")}
    assert report.lanes == lanes
    assert [warning.partition(",")[0] for warning in report.warnings] == [
        "transport 'foo' is not available",
        "unused environment variable: UCX_ZCOPY_TRESH (maybe: UCX_BCOPY_THRESH",
    ]
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
    ("variable", "values"),
    [
        ("UCX_TLS", "self,sysv,cma self,sm all ^posix,tcp"),
        ("UCX_RNDV_THRESH", "64k 65536 intra:64kb,inter:1m auto"),
        ("UCX_ZCOPY_THRESH", "4k"),
    ],
)
def test_what_was_done_as_asked_is_no_contradiction(report, variable, values):
    assert ucx.contradiction(report, {}) == ""
    for value in values.split():
        assert ucx.contradiction(report, {variable: value}) == "", value


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("UCX_TLS=self,posix,cma", "intra-node runs over sysv/memory"),
        ("UCX_TLS=tcp,self", "runs over cma/memory"),
        ("UCX_TLS=^cma", "runs over cma/memory"),
        ("UCX_RNDV_THRESH=16k", "intra-node rendezvous begins at 65536, 65536, 65536"),
        ("UCX_RNDV_THRESH=inf", "rendezvous begins at 65536"),
        ("UCX_RNDV_THRESH=intra:16k,inter:64k", "rendezvous begins at 65536"),
    ],
)
def test_what_was_done_otherwise_is_said(report, asked, words):
    assert words in ucx.contradiction(report, dict([asked.split("=")]))


INFINIBAND = ucx.UcxReport({"inter-node": ("rc_mlx5/mlx5_0:1", "ud_mlx5/mlx5_0:1")}, (), ())


@pytest.mark.parametrize("asked", ["ib,self,sm", "rc,self", "rc_x", "^dc", "\\rc"])
def test_names_of_families_of_transports_that_are_in_use(asked):
    assert ucx.contradiction(INFINIBAND, {"UCX_TLS": asked}) == ""


@pytest.mark.parametrize("asked", ["rc_v", "^rc", "^ib", "tcp,self", "dc_x,self"])
def test_names_of_families_of_transports_that_are_not_in_use(asked):
    assert "runs over" in ucx.contradiction(INFINIBAND, {"UCX_TLS": asked})


OLD = (Path(__file__).parent / "ucx_1_13.txt").read_text()
TABLES = (Path(__file__).parent / "ucx_1_13_protocols.txt").read_text()


def test_ucx_1_13_numbers_its_configurations():
    found = ucx.read_report(OLD)
    assert found.lanes == {
        "self": ("self/memory0", "tcp/lo", "tcp/eth0"),
        "ep_cfg[1]": ("tcp/lo", "tcp/eth0"),
    }
    clean = replace(found, warnings=())
    assert ucx.contradiction(clean, {"UCX_TLS": "self,tcp", "UCX_RNDV_THRESH": "64k"}) == ""
    assert "self runs over tcp/lo" in ucx.contradiction(clean, {"UCX_TLS": "self,sysv"})


def test_ucx_1_13_tells_its_lanes_in_tables_where_it_has_its_new_protocols():
    found = ucx.read_report(TABLES)
    assert found.lanes == {"self": ("self/memory0", "cma/memory"), "ep_cfg[1]": ("sysv/memory", "cma/memory")}
    assert found.first_rendezvous("ep_cfg[1]") == (65536, 65536)
    asked = {"UCX_PROTO_ENABLE": "y", "UCX_TLS": "self,sysv,cma"}
    assert ucx.contradiction(found, {**asked, "UCX_RNDV_THRESH": "64k"}) == ""
    assert "begins at 65536" in ucx.contradiction(found, {**asked, "UCX_RNDV_THRESH": "32k"})


@pytest.mark.parametrize(
    ("line", "lanes"),
    [
        ("ep_cfg[1]: tag(self/memory cma/memory); ", {"self": ("self/memory", "cma/memory")}),
        (
            "ep_cfg[2]: tag(rc_mlx5/mlx5_0:1 rc_mlx5/mlx5_1:1);",
            {"ep_cfg[2]": ("rc_mlx5/mlx5_0:1", "rc_mlx5/mlx5_1:1")},
        ),
        ("  ep_cfg[1]: tag(tcp/lo tcp/eth0)", {"ep_cfg[1]": ("tcp/lo", "tcp/eth0")}),
        ("  ep_cfg[0]: rma(sysv/memory) amo_am(sysv/memory)", {"ep_cfg[0]": ("sysv/memory",)}),
        ("  0x2d96740 self cfg#1tag(sysv/memory) rma(sysv/memory)", {"self": ("sysv/memory",)}),
        ("  0x252d990 intra-node cfg#2 tag(sysv/memory)", {"intra-node": ("sysv/memory",)}),
        ("  perftest inter-node cfg#0 tag(srd/rdmap16s27:1)", {"inter-node": ("srd/rdmap16s27:1",)}),
    ],
)
def test_lines_of_all_releases_are_read(line, lanes):
    found = ucx.read_report(f"[1628016549.696474] [n1:75816:0]      ucp_worker.c:1810 UCX  INFO  {line}\n")
    assert found.lanes == lanes


@pytest.mark.parametrize(
    "words",
    [
        "unused env variable: UCX_FOO (set UCX_WARN_UNUSED_ENV_VARS=n to suppress this warning)",
        "unused env variables: UCX_BAR,UCX_FOO (set UCX_WARN_UNUSED_ENV_VARS=n to suppress this warning)",
        "unused environment variables: UCX_TLZ (maybe: UCX_TLS?); UCX_FOO (maybe: UCX_TLS?)",
    ],
)
def test_a_variable_that_no_release_knows_is_told_in_words_of_each(words):
    lane = "ucp_worker.c:1 UCX  INFO  ctx intra-node cfg#1 tag(sysv/memory)"
    found = ucx.read_report(f"{lane}\n[1.2] [n1:1:0]  parser.c:1908 UCX  WARN  {words}\n")
    assert "UCX_FOO" in ucx.contradiction(found, {"UCX_FOO": "1"})
    assert ucx.contradiction(found, {"UCX_TLS": "all"}) == ""  # what it guesses was not asked for in vain


@pytest.mark.parametrize(
    "words", ["transports 'foo','bar' are", "network devices 'xx','yy' are", "transport 'foo' is"]
)
def test_what_is_not_available_is_told_in_the_plural_too(words):
    lane = "ucp_worker.c:1 UCX  INFO  ctx intra-node cfg#1 tag(sysv/memory)"
    found = ucx.read_report(f"{lane}\nUCX  WARN  {words} not available, please use one or more of: tcp\n")
    assert words in ucx.contradiction(found, {"UCX_TLS": "all"})


def test_a_missing_transport_always_counts_and_a_misspelt_variable_only_if_it_was_asked_for():
    found = ucx.read_report(LOG)
    assert "'foo' is not available" in ucx.contradiction(found, {})
    found = replace(found, warnings=found.warnings[1:])
    assert "UCX_ZCOPY_TRESH" in ucx.contradiction(found, {"UCX_ZCOPY_TRESH": "4k"})
    assert ucx.contradiction(found, {"UCX_ZCOPY_THRESH": "4k"}) == ""
    assert "not in use" in ucx.contradiction(ucx.read_report(""), {})


def test_sizes():
    texts = {"0": 0, "8184": 8184, "16K": 16384, "64kb": 65536, "1m": 1 << 20, "2GB": 2 << 30}
    assert {text: ucx.size_bytes(text) for text in texts} == texts
    with pytest.raises(ValueError, match="auto"):
        ucx.size_bytes("auto")


@pytest.mark.parametrize(
    ("text", "set_"), [(json.dumps({"expect": {"ucx": True}}), True), ("{", False), ("[]", False)]
)
def test_ucx_is_listened_to_when_the_request_wants_it(tmp_path, monkeypatch, text, set_):
    for name in ("UCX_LOG_FILE", "UCX_LOG_LEVEL", "UCX_PROTO_INFO"):
        monkeypatch.setenv(name, "before")
    (tmp_path / "request.json").write_text(text)
    log = listen(tmp_path)
    assert (os.environ["UCX_LOG_LEVEL"] == "info") is set_
    assert os.environ["UCX_LOG_FILE"] == (str(log) if set_ else "before")
    assert log is None or log.parent == tmp_path


def test_a_node_that_does_not_see_the_request_listens_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("UCX_LOG_FILE", "before")
    log = listen(tmp_path / "nowhere")
    assert os.environ["UCX_LOG_FILE"] == str(log)
    assert log.parent.is_dir()
