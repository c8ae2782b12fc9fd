"""``calibrate``: a machine of one's own for the simulated cluster."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from autotune.commands.companions import Companion
from autotune.commands.options import COMPOSED, Out

verbs = typer.Typer()


@verbs.command(**COMPOSED)
def calibrate(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE | KEY=VALUE]…", help="logs, or keys of conf=calibrate"),
    ] = None,
    base: Annotated[str, typer.Option(help="machine to start from")] = "bm_optimized3_36",
    out: Out = None,
) -> int:
    """Measure this machine, or read FILE… (osu_latency, IMB PingPong), and write it as a simulated one."""
    from autotune.simulate import verb

    files = [Path(word) for word in words or () if "=" not in word]
    if files:
        return verb.from_files(files, base, out)
    from autotune.commands.hydra_bridge import run_task

    names_scenario = any(word.startswith("conf=") for word in words or ())
    scenario = () if names_scenario else ("conf=calibrate",)
    return run_task(partial(verb.from_here, base=base, out=out), [*scenario, *(words or ())])


companion = Companion(verbs)
