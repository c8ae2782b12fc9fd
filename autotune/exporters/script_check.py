"""How scripts of variables, for MPICH and what is made from it, are checked on fresh launches (step 12)."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

from autotune.exporters.export_check import Recipe
from autotune.resources import user_text
from autotune.stacks.mpich_tree import FILE_VARIABLE, UNREADABLE
from autotune.stacks.ports import Rendering


def values_in(file: Path) -> dict[str, str]:
    """Variables that a shell script or parameter file of ours sets: name → value."""
    text = user_text(file)
    if file.suffix == ".sh":
        return {name: shlex.split(value)[0] for name, value in re.findall(r"(?m)^ *export (\w+)=(.+)$", text)}
    return dict(re.findall(r"(?m)^(\w+) ?= ?(.*)$", text))


def by_script_recipe(script: Path, tree: Path | None = None, place: Path | None = None) -> Recipe:
    """How a script of variables is checked: each rank sees them, and the library reads them as they stand.

    Which sizes reach which row no launch of these stacks can show. MPICH refuses an invalid tree as a whole,
    as it starts: one is made of the tree that the script names, and will be in ``place``.
    """
    variables = values_in(script)

    def under(rendering: Rendering) -> Rendering:
        expect = rendering.expect
        cvars = {k: v for k, v in variables.items() if k.startswith("MPIR_CVAR_") and k not in UNREADABLE}
        said = [f"{k}={v}" for k, v in variables.items() if k.startswith("I_MPI_ADJUST_")]
        wanted = replace(expect, env={**expect.env, **variables}, cvars={**expect.cvars, **cvars})
        env = {**rendering.env, **variables}
        return replace(rendering, env=env, expect=wanted, said=(*rendering.said, *said))

    if tree is None or place is None:
        return Recipe(tuple(variables), under, lambda _: {}, under, lambda _: False)
    invalid = {tree.name: user_text(tree).replace("algorithm=MPIR_", "algorithm=NO_")}

    def under_invalid(rendering: Rendering) -> Rendering:
        env = under(rendering).env
        named = {FILE_VARIABLE: str(place / tree.name)} if env.get(FILE_VARIABLE) else {}
        return replace(rendering, env={**env, **named})

    return Recipe(tuple(variables), under, lambda _: invalid, under_invalid, lambda _: False, as_a_whole=True)
