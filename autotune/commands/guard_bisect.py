"""``guard bisect A B``: which part of two environments costs the time, by swapping one at a time, in turn."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from autotune.campaign.interruption import check as heed
from autotune.campaign.interruption import heeded
from autotune.campaign.observing import Observer, measurement_of
from autotune.commands.guard_place import launching, settings_in
from autotune.commands.keys import quoted
from autotune.errors import ExitCode, UserError, allowed
from autotune.guard.report import slot_words
from autotune.history.objectives import ratio_of
from autotune.history.trial import Observation, Phase, Subject, Trial
from autotune.space import Point
from autotune.stacks.installation import find
from autotune.stacks.ports import Rendering
from autotune.stacks.ucx import beside
from autotune.verification.blocks import blocks_of
from autotune.verification.comparison import claims, compare
from autotune.verification.sequential import EACH, SequentialDesign
from autotune.views.documents import json_text
from autotune.views.text import ratio_text

PARTS = ("mpi", "ucx", "settings")
"""Parts that can be swapped: a launcher or its prefix, a folder of UCX's libraries, one of exported files."""
_PRELOADED = ("libucm", "libucs", "libuct", "libucp")
"""In the order in which they need each other; what is loaded is not looked for again."""


@dataclass(frozen=True)
class _Variant:
    """One environment, and its launches."""

    name: str
    parts: Mapping[str, Path | None]
    part: str = ""
    """The one in which it differs from A; empty: there are more."""
    made: list[Observation] = field(default_factory=list)


@heeded()
def bisect(a: str, b: str, words: Sequence[str], blocks: int, as_json: bool) -> int:
    """Launch A, B and A with one part of B at a time, in turn; 1 where B is slower, 3 if inconclusive.

    ``words``: KEY=VALUE of the scenario that says what is measured, and where.

    Raises:
        UserError: what is no environment, or two that do not differ.
        StackError: one of them has no MPI.
    """
    variants = _variants(_environment(a), _environment(b))
    with launching(None) as into:
        observers = [_observer(one, words, into) for one in variants]
        for block in range(blocks):
            _one_block(variants, observers, block)
    first, *others = variants
    design = SequentialDesign().share(1 / len(others))
    document = []
    for other in others:
        drawn = blocks_of(first.made, other.made)
        said, judged = claims(drawn, design), compare(drawn, design)
        lost, open_ = said.loses, not judged or said.open
        row = {"what": other.name, "part": other.part, "slower": sorted(lost), "open": bool(open_)}
        document.append({**row, "slots": judged})
    sys.stdout.write(json_text(document) if as_json else _text(first, document))
    whole = document[0]
    return ExitCode.FINDING if whole["slower"] else ExitCode.STUCK if whole["open"] else ExitCode.WELL


def _environment(text: str) -> dict[str, Path | None]:
    """The parts of ``PREFIX`` or ``mpi=…,ucx=…,settings=…``.

    Raises:
        UserError: an unknown part, or a path that is not there.
    """
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
    """A, B and, where they differ in more than one part, A with each part of B's."""
    for one in (a, b):  # an MPI that brings its UCX brings it along, unless another one is named
        one["ucx"] = one["ucx"] or _ucx_of(one)
    differ = [part for part in PARTS if a[part] != b[part]]
    if not differ:
        raise UserError("both environments are the same", f"they may differ in {', '.join(PARTS)}")
    if len(differ) == 1:
        return [_Variant("A", a), _Variant("B", b, differ[0])]
    swapped = [_Variant(f"A with B's {part}", {**a, part: b[part]}, part) for part in differ]
    return [_Variant("A", a), _Variant("B", b), *swapped]


def _observer(one: _Variant, words: Sequence[str], into: Path) -> Observer:
    """Observer of a variant."""
    from autotune.commands.hydra_bridge import answer_of

    named = words if any(word.startswith("conf=") for word in words) else ("conf=allreduce_local", *words)
    words = [*named, f"mpi.mpirun={quoted(one.parts['mpi'])}", "campaign.dir=guard"]
    scenario, site = answer_of(lambda scenario, site: (scenario, site), words)
    own = _ucx_of(one.parts)
    ucx, settings = one.parts["ucx"], one.parts["settings"]
    env = _preloading(ucx) if ucx is not None and ucx != own else {}
    under = settings_in(settings, site, into) if settings else None

    def amended(rendering: Rendering) -> Rendering:
        rendering = under(rendering) if under else rendering
        return replace(rendering, env={**rendering.env, **env})

    measurement = replace(measurement_of(scenario, site.placement.ranks), amended=amended)
    return site.observer(measurement, site.space, into)


def _preloading(folder: Path) -> dict[str, str]:
    """The variable that has UCX's libraries of a folder loaded before any other ones.

    Raises:
        UserError: they are not there.
    """
    found = [next(iter(sorted(folder.glob(f"{name}.so.[0-9]*"))), None) for name in _PRELOADED]
    if None in found:
        raise UserError(
            f"{folder} holds no {_PRELOADED[found.index(None)]}.so", "ucx=FOLDER of UCX's libraries"
        )
    return {"LD_PRELOAD": ":".join(map(str, found))}


def _one_block(variants: Sequence[_Variant], observers: Sequence[Observer], block: int) -> None:
    """Launches of all variants in an order that is drawn."""
    rng = np.random.default_rng()
    drawn = rng.permutation(np.repeat(np.arange(len(variants)), EACH))
    for position, which in enumerate(drawn, start=1):
        heed()
        number = 100 + block * len(drawn) + position
        seed = int(rng.integers(2**31))
        trial = Trial(number, Phase.VERIFY, Point(), Subject.UNTOUCHED, block, seed)
        began = time.monotonic()
        made = observers[which].observe(trial)
        variants[which].made.append(made)
        said = "ok" if made.ok else f"{made.status}: {made.reason}"
        name = variants[which].name
        sys.stderr.write(f"block {block + 1}, launch {position} of {len(drawn)}  {name}  {said}  ")
        sys.stderr.write(f"{time.monotonic() - began:.1f} s\n")


def _ucx_of(parts: Mapping[str, Path | None]) -> Path | None:
    """The folder of the UCX that an MPI brings; None: it brings none."""
    library = beside(find(str(parts["mpi"])).library)
    return library and library.parent


def _text(first: _Variant, document: Sequence[Mapping[str, Any]]) -> str:
    """The culprit, and size by size the speed of each beside A."""
    parts = [one["what"] for one in document[1:] if one["slower"]]
    if not document[0]["slower"]:
        head = "inconclusive B from A" if document[0]["open"] else "B is as fast as A"
    elif len(document) == 1:
        head = f"B is slower than A, by its {document[0]['part']}: nothing else differs"
    else:
        head = (
            f"B is slower than A; so is {' and '.join(parts)}" if parts else "B is slower; no part alone is"
        )
    lines = [f"{head} ({len(first.made)} launches each)"]
    for one in document:
        lines.append(f"speed of {one['what']} over that of A:")
        for c in one["slots"]:
            where = slot_words(c.slot)
            ends = (ratio_of(c.low), ratio_of(c.high))
            mark = "  SLOWER" if c.slot in one["slower"] else ""
            lines.append(f"  {where:36} {ratio_text(ratio_of(c.gain), ends)}{mark}")
    return "\n".join(lines) + "\n"
