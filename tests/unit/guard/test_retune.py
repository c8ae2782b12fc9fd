"""``retune=DIR`` composes what a check found lost, and text of any characters is one value of Hydra's."""

from dataclasses import replace

import numpy as np
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from autotune.commands.hydra_bridge import run_task
from autotune.commands.keys import quoted
from autotune.errors import ScenarioError, UserError
from autotune.guard.kept import add_night
from autotune.guard.retune import retuned
from tests.unit.guard.nights_of import Machine

LOST = ("bcast/4/8", "allreduce/4/64", "alltoall/4/8", "allreduce/4/8")


def checked(folder, lost):
    """A folder in which a check was made."""
    (night,) = Machine().nights(1, np.random.default_rng(1), each=4)
    (folder / "guard").mkdir(parents=True)
    add_night(folder / "guard", replace(night, lost=lost))
    return folder


def composed(*words):
    found = []
    run_task(lambda scenario, site: found.append(scenario) or 0, ["conf=allreduce_8node", *words])
    return found


def test_it_measures_what_was_lost_and_nothing_else(tmp_path):
    site = checked(tmp_path / "a, b=c", LOST)
    first, second = composed(f"retune={site}")
    assert (first.collective, first.sizes) == (("allreduce",), (8, 64))
    assert (second.collective, second.sizes) == (("alltoall", "bcast"), (8,))
    assert str(first.directory).startswith("campaigns/retune-2026-")
    assert first.directory != second.directory
    (one,) = composed(f"retune={checked(tmp_path / 'one', LOST[:1])}", "campaign.dir=mine")
    assert (one.collective, one.sizes, str(one.directory)) == (("bcast",), (8,), "mine")


@pytest.mark.parametrize(
    "lost, words, said",
    [
        ((), [], "found nothing to be tuned again"),
        (LOST, ["sizes=[8]"], "says itself"),
        (LOST, ["-m"], "says itself"),
        (LOST, ["retune=there"], "given once"),
        (LOST, ["campaign.dir=mine"], "makes 2 campaigns"),
        (("x]/4/8",), [], "is no slot"),
        (("bcast/4",), [], "is no slot"),
    ],
)
def test_what_cannot_be_tuned_again_is_one_message(tmp_path, lost, words, said):
    site = checked(tmp_path / "site", lost)
    with pytest.raises(UserError, match=said):
        retuned(["conf=allreduce_8node", f"retune={site}", *words])


def test_a_folder_without_a_check_is_one_message(tmp_path):
    with pytest.raises(ScenarioError, match="no check was made there"):
        retuned([f"retune={tmp_path}"])


@given(st.text(min_size=1) | st.text("\\'${} ,=[]a", min_size=1))
@example(r"\\${x}\'")
def test_quoted_text_is_read_back_as_it_was(text):
    value = OverridesParser.create().parse_override(f"++k={quoted(text)}").value()
    assert OmegaConf.to_container(OmegaConf.create({"k": value}), resolve=True)["k"] == text
