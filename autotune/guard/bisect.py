"""``guard bisect A B``: find which part of environment B (MPI, UCX or settings) makes it slower than A.

A is compared with B, and then with variants of A in which one part is replaced by the same part of B.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.campaign.interruption import heeded
from autotune.campaign.observing import measurement_of
from autotune.campaign.turns import Side, are_heats
from autotune.commands.keys import quoted
from autotune.errors import ExitCode, UserError, allowed
from autotune.guard.beside import Beside
from autotune.guard.heats import Span, alone, blocks_in_time, environment_side
from autotune.guard.place import launching, settings_in
from autotune.history.trial import Observation
from autotune.stacks.installation import find
from autotune.stacks.ports import Rendering
from autotune.stacks.ucx import beside
from autotune.verification.sequential import EACH, SequentialDesign
from autotune.views.documents import answer_text, fields_of

PARTS = ("mpi", "ucx", "settings")
"""Parts of an environment: ``mpi`` is a launcher or an installation prefix, ``ucx`` the folder of UCX's
libraries, and ``settings`` a folder of exported files."""
_PRELOADED = ("libucm", "libucs", "libuct", "libucp")
"""UCX's libraries in the order in which they are preloaded: each comes after the libraries that it needs."""


@dataclass(frozen=True)
class _Variant:
    """One environment to be launched: A, B, or A with one part replaced by that of B."""

    name: str
    parts: Mapping[str, Path | None]  # Path of each part in ``PARTS``; None: the variant has none.
    part: str = ""
    """Name of the only part in which the variant differs from A; empty for A itself and if several differ."""


@heeded()
def bisect(a: str, b: str, words: Sequence[str], blocks: int, as_json: bool) -> int:
    """Compare the speed of A with that of B, then of A with single parts of B, and print the result.

    The arguments are the options of the command, which ``cli`` describes.

    Returns:
        The exit code: 0 if B is not slower than A, 1 if B is slower or fails more often, 3 if the result is
        inconclusive.

    Raises:
        UserError: one of the arguments does not describe an environment, or the environments do not differ.
        StackError: one of the environments contains no MPI.
    """
    variant_a, variant_b, *swapped = _variants(_environment(a), _environment(b))
    comparisons: list[tuple[_Variant, Beside]] = []
    with launching(None) as work_folder:
        for variant in (variant_b, *swapped):
            if comparisons and not comparisons[0][1].worse:
                break  # B is not worse than A, so no part of B has to be searched for
            folder = work_folder / f"compared-{len(comparisons)}"
            sides = [_side(side_variant, words, folder) for side_variant in (variant_a, variant)]
            comparisons.append((variant, _compared(sides, blocks, 1 + len(swapped))))
            how = "at the same moments" if are_heats(sides) else "one after the other"
    if as_json:
        rows = [{"what": v.name, "part": v.part, **fields_of(b, "slower", "open", "failures", "launches"),
                 "how": how, "most_lost": b.most_lost, "slots": b.comparisons}
                for v, b in comparisons]  # fmt: skip
        sys.stdout.write(answer_text("guard-bisect", {"comparisons": rows}))
    else:
        sys.stdout.write(_text(comparisons, how))
    _, result_b = comparisons[0]
    return ExitCode.FINDING if result_b.worse else ExitCode.STUCK if result_b.open else ExitCode.WELL


def _compared(sides: Sequence[Side], blocks: int, tests: int) -> Beside:
    """Launch two environments in turn and compare them; ``tests`` comparisons share the error rate."""
    launches: tuple[list[Observation], list[Observation]] = ([], [])
    comparison, names = Beside(), (sides[0].name, sides[1].name)
    for block in blocks_in_time(sides, blocks * EACH, Span(math.inf)):
        for side_index, observation in block:
            launches[side_index].append(observation)
        comparison = Beside.of(*launches, names, SequentialDesign().alpha / tests)
        if comparison.settled:
            break
    return comparison


def _environment(text: str) -> dict[str, Path | None]:
    """Return the parts of an environment, written ``PREFIX`` or ``mpi=…,ucx=…,settings=…``."""
    parts: dict[str, Path | None] = dict.fromkeys(PARTS)
    for word in text.split(","):
        name, sign, value = word.partition("=")
        name, value = (name, value) if sign else ("mpi", word)
        if name not in PARTS:
            raise UserError(f"{text}: {name!r} is no part of an environment", allowed(name, PARTS))
        path = Path(value)
        if not path.exists():
            raise UserError(f"{text}: {path} is not there", "expected PREFIX, or mpi=…,ucx=…,settings=…")
        parts[name] = path
    mpi = parts["mpi"]
    if mpi is None:
        raise UserError(f"{text} names no MPI", "mpi=PATH of an mpirun, or of a prefix with bin/mpirun")
    parts["mpi"] = mpi / "bin" / "mpirun" if mpi.is_dir() else mpi
    return parts


def _variants(a: dict[str, Path | None], b: dict[str, Path | None]) -> list[_Variant]:
    """Return A, B and, if several parts differ, a variant of A for each of these, with that part of B."""
    for parts in (a, b):  # an MPI uses the UCX that it was installed with, unless the user names another
        parts["ucx"] = parts["ucx"] or _ucx_of(parts)
    differing_parts = [part for part in PARTS if a[part] != b[part]]
    if not differing_parts:
        raise UserError("both environments are the same", f"they may differ in {', '.join(PARTS)}")
    if len(differing_parts) == 1:
        return [_Variant("A", a), _Variant("B", b, differing_parts[0])]
    swapped = [_Variant(f"A with B's {part}", {**a, part: b[part]}, part) for part in differing_parts]
    return [_Variant("A", a), _Variant("B", b), *swapped]


def _side(variant: _Variant, words: Sequence[str], work_folder: Path) -> Side:
    """Return the side of the comparison that launches an environment."""
    from autotune.commands.hydra_bridge import answer_of

    conf = [] if any(word.startswith("conf=") for word in words) else ["conf=allreduce_local"]
    words = [*conf, *words, f"mpi.mpirun={quoted(variant.parts['mpi'])}", "campaign.dir=guard"]
    scenario, bench = answer_of(lambda scenario, bench: (scenario, bench), words)
    own_ucx = _ucx_of(variant.parts)
    ucx, settings = variant.parts["ucx"], variant.parts["settings"]
    env = _preloading(ucx) if ucx is not None and ucx != own_ucx else {}
    amend_by_settings = settings_in(settings, bench, work_folder) if settings else None

    def amended(rendering: Rendering) -> Rendering:
        rendering = amend_by_settings(rendering) if amend_by_settings else rendering
        return replace(rendering, env={**rendering.env, **env})

    measurement = replace(alone(measurement_of(scenario, bench.placement.ranks)), amended=amended)
    observer = bench.observer(measurement, bench.space, work_folder)
    return environment_side(variant.name, observer, measurement.timeout_s)


def _preloading(folder: Path) -> dict[str, str]:
    """Return the variable that makes the loader load UCX's libraries from a folder before all others."""
    libraries = []
    for name in _PRELOADED:
        if not (files := sorted(folder.glob(f"{name}.so.[0-9]*"))):
            raise UserError(f"{folder} holds no {name}.so", "ucx=FOLDER of UCX's libraries")
        libraries.append(str(files[0]))
    return {"LD_PRELOAD": ":".join(libraries)}


def _ucx_of(parts: Mapping[str, Path | None]) -> Path | None:
    """Return the folder of the UCX that was installed with an MPI; None if that MPI has no UCX of its own."""
    library = beside(find(str(parts["mpi"])).library)
    return library and library.parent


def _text(comparisons: Sequence[tuple[_Variant, Beside]], how: str) -> str:
    """Return the result as text: the part that makes B worse, and each environment's speed / A's speed."""
    (variant_b, result_b), *swapped_results = comparisons
    if not result_b.worse:
        head = f"{'inconclusive' if result_b.open else 'B is as fast as A'}: {result_b.bound}"
    elif variant_b.part:
        head = f"B is worse than A, by its {variant_b.part}: nothing else differs"
    else:
        parts = " and ".join(variant.name for variant, result in swapped_results if result.worse)
        head = f"B is worse than A; so is {parts}" if parts else "B is worse than A; no part alone is"
    lines = [head]
    for variant, result in comparisons:
        lines.append(f"speed of {variant.name} over that of A, {result.launches} launches each, {how}:")
        lines += [f"  {line}" for line in result.lines]
    return "\n".join(lines) + "\n"
