"""How a value is applied is checked when the space is read: nothing is launched with what cannot be said."""

import json

import pytest

from autotune.errors import SpaceError
from autotune.space.loader import load_space


def load(apply):
    parameters = {"knob": {"values": ["a", "b"], "apply": apply}, "other": {"values": [1, 2]}}
    return load_space(json.dumps({"parameters": parameters}), "mine")


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        ({"env": "UCX_TLS"}, "apply.env = 'UCX_TLS'\n  expected NAME: VALUE"),
        ({"env": ["UCX_TLS"]}, "expected NAME: VALUE"),
        ({"mca": 3}, "expected NAME: VALUE"),
        ({"map_by": {"by": "core"}}, "expected text"),
        ({"a": "core"}, "apply.a must be a mapping"),
        ({"a": {"env": "core"}}, "expected NAME: VALUE"),
        ({"env": {"UCX_TLS": "{valu}"}}, "names valu\n  did you mean 'value'"),
        ({"env": {"UCX_TLS": "{}"}}, "the template '{}' names"),
        ({"env": {"UCX_TLS": "{value"}}, "the template '{value': expected '}'"),
        ({"env": {"UCX_TLS": "{value.__class__}"}}, "names value.__class__"),
        ({"env": {"UCX_TLS": "{value:{other}}"}}, "more than a name in a field"),
        ({"env": {"UCX_TLS": "{value!q}"}}, "more than a name in a field"),
        ({"map_by": "ppr:{other:d}:node"}, "more than a name in a field"),
        ({"env": {"UCX_{value[0]}": "x"}}, "names value[0]"),
        ({"environment": {"UCX_TLS": "{value}"}}, "cannot apply by 'environment'"),
    ],
)
def test_what_cannot_be_applied_is_refused(apply, message):
    with pytest.raises(SpaceError) as refused:
        load(apply)
    assert message in str(refused.value)


def test_templates_name_the_value_the_collective_and_parameters():
    assert load({"env": {"UCX_{collective}": "{value}:{other}"}, "map_by": "ppr:{other}:node"})
