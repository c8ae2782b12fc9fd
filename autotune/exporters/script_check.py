"""How scripts of variables, for MPICH and MPIs derived from it, are checked on fresh launches (step 12)."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

from autotune.exporters.export_check import Recipe
from autotune.resources import user_text
from autotune.stacks.mpich_tree import FILE_VARIABLE, UNREADABLE
from autotune.stacks.ports import Rendering


def values_in(file: Path) -> dict[str, str]:
    """Return the variables that a shell script or parameter file of this program sets, with their values."""
    text = user_text(file)
    if file.suffix == ".sh":
        return {name: shlex.split(value)[0] for name, value in re.findall(r"(?m)^ *export (\w+)=(.+)$", text)}
    return dict(re.findall(r"(?m)^(\w+) ?= ?(.*)$", text))


def by_script_recipe(script: Path, tree: Path | None = None, place: Path | None = None) -> Recipe:
    """Return the check of a script: ranks must see its variables, and the library read them unchanged.

    No launch of these stacks shows which sizes reach which row. MPICH refuses an invalid tree as a whole, as
    it starts.

    Args:
        script: The script.
        tree: The selection tree that the script names; None where it names none.
        place: Directory for the invalid tree.
    """
    variables = values_in(script)

    def under(rendering: Rendering) -> Rendering:
        expect = rendering.expect
        cvars = {k: v for k, v in variables.items() if k.startswith("MPIR_CVAR_") and k not in UNREADABLE}
        printed = [f"{k}={v}" for k, v in variables.items() if k.startswith("I_MPI_ADJUST_")]
        expected = replace(expect, env={**expect.env, **variables}, cvars={**expect.cvars, **cvars})
        env = {**rendering.env, **variables}
        return replace(rendering, env=env, expect=expected, must_print=(*rendering.must_print, *printed))

    if tree is None or place is None:
        return Recipe(tuple(variables), under, lambda _: {}, under, lambda _: False)
    invalid = {tree.name: user_text(tree).replace("algorithm=MPIR_", "algorithm=NO_")}

    def under_invalid(rendering: Rendering) -> Rendering:
        env = under(rendering).env
        tree_variable = {FILE_VARIABLE: str(place / tree.name)} if env.get(FILE_VARIABLE) else {}
        return replace(rendering, env={**env, **tree_variable})

    return Recipe(tuple(variables), under, lambda _: invalid, under_invalid, lambda _: False, as_a_whole=True)
