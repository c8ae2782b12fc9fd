"""The rule files: exactly one rule for each variable, whatever the order."""

from pathlib import Path

import pytest

from autotune.errors import SpaceError
from autotune.stacks.knobs import LAYERS, Class, Knob, KnobKind, classify, job_facts, ucx
from autotune.stacks.knobs.rules import load, parse

DATA = Path(__file__).resolve().parents[3] / "data" / "knobs"


def knob(name, **more):
    return Knob("openmpi", "5.0.11", name, KnobKind.INTEGER, "1", **more)


def rules(text):
    return parse(text, "a test")


SIZES = "sizes: {class: performance, reason: sizes, match: ['btl_*_limit'], kind: bytes}\n"


def test_a_variable_gets_the_class_reason_and_kind_of_its_rule_and_without_one_is_unknown():
    known, unknown = classify([knob("btl_sm_eager_limit"), knob("new_thing")], rules(SIZES))
    assert (known.klass, known.reason, known.knob.kind) == (Class.PERFORMANCE, "sizes", KnobKind.BYTES)
    assert (unknown.klass, unknown.rule, unknown.reason) == (Class.UNKNOWN, None, "no rule names it")


@pytest.mark.parametrize("first", [True, False])
def test_overlapping_patterns_are_an_error_in_any_order(first):
    other = "sm: {class: protected, reason: shared memory, match: ['btl_sm_*']}\n"
    text = SIZES + other if first else other + SIZES
    with pytest.raises(SpaceError, match=r"btl_sm_limit matches the rules (sizes, sm|sm, sizes)"):
        classify([knob("btl_sm_limit")], rules(text))
    declared = text.replace("match: ['btl_sm_*']", "match: ['btl_sm_*'], over: [sizes]")
    (classed,) = classify([knob("btl_sm_limit")], rules(declared))
    assert classed.klass is Class.PROTECTED
    circle = declared.replace("kind: bytes", "over: [sm]")
    with pytest.raises(SpaceError, match="matches the rules"):
        classify([knob("btl_sm_limit")], rules(circle))


def test_a_full_name_is_more_specific_than_any_pattern():
    text = SIZES + "never: {class: protected, reason: it aborts, match: btl_sm_limit}\n"
    assert [c.klass for c in classify([knob("btl_sm_limit"), knob("btl_tcp_limit")], rules(text))] == [
        Class.PROTECTED,
        Class.PERFORMANCE,
    ]
    twice = text + "again: {class: diagnostics, reason: a report, match: btl_sm_limit}\n"
    with pytest.raises(SpaceError, match="never, again"):
        classify([knob("btl_sm_limit")], rules(twice))


def test_a_pattern_can_ask_for_a_collective_and_for_a_regular_expression():
    text = (
        "algorithms: {class: performance, reason: how, match: ['X_{collective}_ALGORITHM'],\n"
        "  needs: ['collective:{collective}', 'btl_in_use:{component}']}\n"
        "lists: {class: protected, reason: aborts, match: '/[a-z]+/'}\n"
    )
    found = classify(
        [
            knob("X_REDUCE_SCATTER_BLOCK_ALGORITHM", component="btl:sm"),
            knob("X_IBCAST_ALGORITHM"),
            knob("btl"),
        ],
        rules(text),
    )
    assert found[0].needs == ("collective:reduce_scatter_block", "btl_in_use:sm")
    assert [c.klass for c in found] == [Class.PERFORMANCE, Class.UNKNOWN, Class.PROTECTED]


def test_words_that_the_library_refuses_are_left_out():
    text = "sizes: {class: performance, reason: sizes, match: X, without: inf}\n"
    (classed,) = classify([knob("X", allowed=("inf", "auto"))], rules(text))
    assert classed.knob.allowed == ("auto",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a list", "must be a mapping"),
        ("a: [", "no YAML"),
        ("a: 1", "a = 1"),
        ("a: {class: performance, reason: r, match: x, klass: y}", "unknown key 'a.klass'"),
        ("a: {class: performance, match: x}", "lacks 'a.reason'"),
        ("a: {class: fast, reason: r, match: x}", "a.class = 'fast'"),
        ("a: {class: performance, reason: r, match: x, kind: size}", "a.kind = 'size'"),
        ("a: {class: performance, reason: r, match: x, over: [b]}", "over 'b'"),
    ],
)
def test_mistakes_in_a_rule_file_are_named(text, message):
    with pytest.raises(SpaceError, match=message):
        rules(text)


@pytest.mark.parametrize("layer", LAYERS)
def test_the_shipped_files_are_right(layer):
    shipped = load(layer)
    assert {rule.klass for rule in shipped} >= {Class.PERFORMANCE, Class.PROTECTED, Class.DIAGNOSTICS}
    names = [name for rule in shipped for name in rule.patterns]
    assert len(names) == len(set(names))
    for rule in shipped:  # only those that are turned are strong, and they say who says so
        assert not rule.strong or (rule.klass is Class.PERFORMANCE and not rule.left_to), rule.name
        assert all(len(source.split()) > 2 for source in rule.strong.values()), rule.name


@pytest.mark.parametrize(
    ("layer", "name", "klass"),
    [
        ("openmpi", "btl_tcp_if_include", Class.PROTECTED),
        ("openmpi", "btl_sm_backing_directory", Class.PROTECTED),
        ("openmpi", "coll_han_reproducible", Class.PROTECTED),
        ("openmpi", "mpi_param_check", Class.PROTECTED),
        ("openmpi", "plm_rsh_agent", Class.PROTECTED),
        ("openmpi", "btl_base_verbose", Class.DIAGNOSTICS),
        ("openmpi", "btl_sm_eager_limit", Class.PERFORMANCE),
        ("ucx", "UCX_NET_DEVICES", Class.PROTECTED),
        ("ucx", "UCX_POSIX_DIR", Class.PROTECTED),
        ("ucx", "UCX_MEM_MMAP_HOOK_MODE", Class.PROTECTED),
        ("ucx", "UCX_IB_PKEY", Class.PROTECTED),
        ("ucx", "UCX_LOG_LEVEL", Class.DIAGNOSTICS),
        ("ucx", "UCX_RC_MLX5_TX_QUEUE_LEN", Class.PERFORMANCE),
        ("libfabric", "FI_TCP_IFACE", Class.PROTECTED),
        ("libfabric", "FI_PROVIDER_PATH", Class.PROTECTED),
        ("libfabric", "FI_CXI_RDZV_THRESHOLD", Class.PERFORMANCE),
        ("mpich", "MPIR_CVAR_CH4_OFI_TAG_BITS", Class.PROTECTED),
        ("mpich", "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM", Class.PERFORMANCE),
        ("ucc", "UCC_TL_UCP_TUNE", Class.PERFORMANCE),
        ("ucc", "UCC_LOG_LEVEL", Class.DIAGNOSTICS),
    ],
)
def test_what_must_never_be_turned_is_not(layer, name, klass):
    (classed,) = classify([knob(name)], load(layer))
    assert classed.klass is klass


@pytest.mark.parametrize("version", ["1.13", "1.20"])
def test_every_variable_of_ucx_with_infiniband_is_classed_by_exactly_one_rule(version):
    """What UCX with rc, ud and dc says, without the texts."""
    listed = ucx.parse((DATA / f"ucx-{version}-infiniband.txt").read_text())
    classed = classify(listed, load("ucx"))
    assert len(classed) > 700
    assert [c.knob.name for c in classed if c.rule is None] == []
    by_name = {c.knob.name: c for c in classed}
    turned = ("RC_TX_QUEUE_LEN", "DC_NUM_DCI", "UD_MAX_WINDOW", "RC_FC_WND_SIZE", "RC_TM_ENABLE")
    assert {by_name[f"UCX_{name}"].klass for name in turned} == {Class.PERFORMANCE}
    left = ("RC_MLX5_SL", "DC_PKEY", "UD_TIMEOUT", "RC_RETRY_COUNT", "RC_FENCE", "IB_FORK_INIT")
    assert {by_name[f"UCX_{name}"].klass for name in left} == {Class.PROTECTED}


def test_what_matters_most_elsewhere_is_strong_and_its_rule_says_who_says_so():
    (rule,) = rules(SIZES.replace("kind: bytes", "strong: {'/btl_[a-z]+_limit/': its documentation}"))
    assert rule.is_strong("btl_sm_limit")
    assert not rule.is_strong("btl_sm_get_limit")
    for wrong in ("[btl_sm_limit]", "btl_sm_limit", "{btl_sm_limit: null}"):
        with pytest.raises(SpaceError, match=r"sizes\.strong"):
            rules(SIZES.replace("kind: bytes", f"strong: {wrong}"))


def test_one_sided_parameters_are_turned_for_one_sided_patterns_and_promises_never():
    names = ("osc_rdma_buffer_size", "osc_ucx_progress_iterations", "osc_rdma_no_locks", "osc_sm_priority")
    turned, over_ucx, *left = classify(map(knob, names), load("openmpi"))
    assert (turned.klass, over_ucx.klass) == (Class.PERFORMANCE, Class.PERFORMANCE)
    assert turned.needs == over_ucx.needs == ("pattern:one_sided",)
    assert "pattern:one_sided" in job_facts(1, ["put_fence"])
    assert "pattern:one_sided" not in job_facts(1, ["allreduce", "halo"])
    assert {one.klass for one in left} == {Class.PROTECTED}
