from types import SimpleNamespace

import pytest

from autotune.errors import StackError
from autotune.probe.mpit import ToolInterface, named, names_of_description, same_value
from autotune.stacks.knobs.mpich import _Library

ALGORITHMS = {"ignore": 0, "basic_linear": 1, "ring": 4}


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ("1", 1),
        ("1", "true"),
        ("0", False),
        ("4", "ring"),
        ("ring", 4),
        ("65536", "0x10000"),
        ("0.5", 0.5),
        ("^sm", "^sm"),
    ],
)
def test_the_same_value_in_other_words(found, wanted):
    assert same_value(found, wanted, ALGORITHMS)


@pytest.mark.parametrize(
    ("found", "wanted"), [("0", 7), ("0", "ring"), ("1", "false"), ("ucx", "ob1"), ("", "0"), ("0", "7")]
)
def test_another_value(found, wanted):
    assert not same_value(found, wanted, ALGORITHMS)


def test_values_are_shown_with_the_librarys_names():
    assert named("4", ALGORITHMS) == "4 ring"
    assert named("9", ALGORITHMS) == "9"
    assert named("ucx", {}) == "ucx"


def test_the_names_in_a_description_of_mpich():
    text = (
        "Variable to select allreduce algorithm\nauto - Internal algorithm selection\nnb - Force nonblocking"
    )
    assert names_of_description(text) == {"auto": 0, "nb": 1}
    assert names_of_description("If greater than 0 - see below - a limit") == {}


@pytest.mark.parametrize("kind", [ToolInterface, _Library])
def test_a_call_that_mpi_refuses_is_one_error_with_mpi_and_without(kind):
    """A rank asks the library that mpi4py has loaded; the program that lists MPICH's variables loads one."""
    tools = object.__new__(kind)
    tools._lib = SimpleNamespace(MPI_T_cvar_read=lambda *arguments: 0, MPI_T_cvar_write=lambda *arguments: 7)
    ask = (lambda name: tools._call(name, "x=1")) if kind is ToolInterface else tools
    ask("cvar_read")
    with pytest.raises(StackError, match=r"^MPI_T_cvar_write refused .*\(code 7\)$"):
        ask("cvar_write")
