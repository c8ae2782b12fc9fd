import pytest

from autotune.probe.mpit import named, names_of_description, same_value

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
