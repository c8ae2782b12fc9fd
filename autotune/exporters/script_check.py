"""How scripts for MPICH and for MPIs derived from it are checked on fresh launches (step 12 of the flow)."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

from autotune.exporters.export_check import Recipe
from autotune.resources import user_text
from autotune.stacks.mpich_tree import FILE_VARIABLE, UNREADABLE
from autotune.stacks.ports import Rendering


def values_in(file: Path) -> dict[str, str]:
    """Return the variables, with values, that an exported shell script or parameter file sets."""
    text = user_text(file)
    if file.suffix == ".sh":
        return {name: shlex.split(value)[0] for name, value in re.findall(r"(?m)^ *export (\w+)=(.+)$", text)}
    return dict(re.findall(r"(?m)^(\w+) ?= ?(.*)$", text))


def by_script_recipe(script: Path, tree: Path | None = None, place: Path | None = None) -> Recipe:
    """Return how a script is checked: ranks must have its variables, and the library must read their values.

    No launch of these MPIs shows which message sizes reach which row of the rules, but MPICH refuses to start
    with an invalid selection tree: a copy in ``place`` of the ``tree`` that the script names.
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
