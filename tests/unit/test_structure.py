import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

import numpy as np
import pytest

from autotune.errors import JournalError, UserError
from autotune.space import Point
from autotune.structure import Document, finite, plain


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Inner:
    low: float = 0.0
    count: int | None = None

    def __post_init__(self) -> None:
        if self.low < 0:
            raise UserError("low must not be negative", "0 or more")


@dataclass(frozen=True, slots=True)
class Outer:
    name: str
    colour: Colour = Colour.RED
    inner: Inner = Inner()
    named: Mapping[str, tuple[Inner, ...]] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    either: int | str = 0
    whatever: Mapping[str, Any] = field(default_factory=dict)
    point: Point = Point()
    flag: bool = field(default=False, metadata={"key": "is"})


FORM = Document("the paper")


def test_every_kind_of_field_is_read():
    found = FORM.structured(
        Outer,
        {
            "name": 7,
            "colour": "blue",
            "inner": {"low": "1e-6", "count": None},
            "named": {"a": [{"low": 2}, {}]},
            "words": "alone",
            "either": "text",
            "whatever": {"x": [1, {"y": None}]},
            "point": {"b": 2, "a": 1},
            "is": True,
        },
    )
    named, whatever = {"a": (Inner(2.0), Inner())}, {"x": [1, {"y": None}]}
    wanted = ("7", Colour.BLUE, Inner(1e-6), named, ("alone",), "text", whatever, Point.of({"a": 1, "b": 2}))
    assert found == Outer(*wanted, flag=True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nmae": 1}, "unknown key 'nmae'.*did you mean 'name'"),
        ({"flag": True}, "unknown key 'flag'"),
        ({"inner": {"lwo": 1}}, "unknown key 'inner.lwo'.*did you mean 'low'"),
        ({"inner": 3}, "inner = 3.*a mapping"),
        ({"inner": {"low": None}}, "inner.low = None.*a number"),
        ({"inner": {"low": True}}, "inner.low = True.*a number"),
        ({"inner": {"low": "soon"}}, "inner.low = 'soon'.*a number"),
        ({"inner": {"low": math.nan}}, "inner.low = nan.*a number that is finite"),
        ({"inner": {"low": "1e400"}}, "inner.low = '1e400'.*a number that is finite"),
        ({"inner": {"count": 1.5}}, "inner.count = 1.5.*a whole number"),
        ({"inner": {"low": -1}}, "inner: low must not be negative"),
        ({"named": {"a": [{"low": "x"}]}}, "named.a.low = 'x'"),
        ({"named": [1]}, r"named = \[1\].*a mapping"),
        ({"colour": "green"}, "colour = 'green'.*allowed: red, blue"),
        ({"either": [1]}, r"either = \[1\]"),
        ({"words": [None]}, "words = None.*text"),
        ({"point": 3}, "point = 3.*a Point"),
        ({"is": "yes"}, "is = 'yes'.*true or false"),
    ],
)
def test_a_mistake_names_the_whole_key(changes, words):
    with pytest.raises(UserError, match=f"(?s)^{words}"):
        FORM.structured(Outer, {"name": "x", **changes})


def test_what_is_missing_is_named_all_of_it():
    with pytest.raises(UserError, match=r"the paper lacks 'top\.name'"):
        FORM.structured(Outer, {}, "top")


def test_our_own_documents_come_back_as_they_were():
    own = Document("the journal", JournalError, own=True)
    written = Outer("x", Colour.BLUE, Inner(math.inf, 3), point=Point.of({"a": 1}), flag=True)
    read = own.structured(Outer, json.loads(json.dumps(plain(written), allow_nan=False)))
    assert math.isnan(read.inner.low)
    assert (read.colour, read.inner.count, read.flag) == (Colour.BLUE, 3, True)
    assert read.point == Point.of({"a": 1})
    with pytest.raises(JournalError, match="unknown key 'later'"):
        own.structured(Outer, {"name": "x", "later": 1})


def test_keys_of_later_versions_can_be_passed_over():
    newer = Document("the journal", JournalError, own=True, newer=True)
    assert newer.structured(Outer, {"name": "x", "later": 1, "inner": {"later": 2}}) == Outer("x")


def test_what_is_not_finite_becomes_null():
    assert [finite(x) for x in (1.5, math.nan, math.inf, -math.inf)] == [1.5, None, None, None]
    assert plain({1: (math.nan, "a", [True, None])}) == {"1": [None, "a", [True, None]]}
    assert plain({"kept": 1, "left": b"x"}, leave_out=bytes) == {"kept": 1, "left": None}


def test_aliases_by_a_type_statement_are_what_they_stand_for():
    typing_extensions = pytest.importorskip("typing_extensions")
    item = TypeVar("item")
    array = typing_extensions.TypeAliasType("array", np.ndarray[Any, np.dtype[item]], type_params=(item,))

    @dataclass(frozen=True)
    class Aliased:
        whole: typing_extensions.TypeAliasType("numbers", tuple[float, ...]) = ()
        times: array[np.float64] | None = None

    times = np.arange(3.0)
    found = FORM.structured(Aliased, {"whole": [1, "2.5"], "times": times})
    assert found.whole == (1.0, 2.5) and found.times is times
