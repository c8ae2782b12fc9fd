"""``run``: the job tunes itself while it runs; nothing is prepared."""

import contextlib
import math
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from autotune.campaign.interruption import alarm, check, heeded
from autotune.commands.run_documents import LEARNED, RUN, learned_cells
from autotune.errors import Interrupted, UserError
from autotune.exporters import exporter
from autotune.exporters.writing import write_files
from autotune.history.trial import Rule
from autotune.importers.recording import WORST
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.resources.secret import without_secrets
from autotune.space import Point
from autotune.stacks.application import RUN_FOLDER, Ran, installation_of, passed_on, preload, recording, run
from autotune.stacks.installation import Installation
from autotune.stacks.switched import SWITCHED, Offer, offers, plan, remark, unlocked
from autotune.structure import finite
from autotune.verification.evidence import Drawn, bound, estimate
from autotune.verification.sequential import ONE_IN_TWENTY
from autotune.views.documents import json_text
from autotune.views.text import size_text

MODE = "AUTOTUNE_RUN_MODE"  # ``random``: another algorithm at each call, which tests want.
_RULES = {"openmpi": "coll_tuned", "mpich": "mpich_json"}
"""The format in which what was decided is kept for jobs that do not tune themselves."""
_PIECES = 8  # Of a block, see ``probe/switcher/decide.h``.
_MOST_BYTES = 1 << 26  # Of a process's events: thousands of cells.


@dataclass(slots=True)
class Cell:
    """A run's decision for a communicator, a collective and a power of two of its message size."""

    collective: str
    bin: int
    ranks: int
    one_node: bool
    calls: int = 0
    default_s: float = 0.0  # Of a call, without waiting; 0: not measured.
    wait_s: float = 0.0  # Of a call, on rank 0 of the communicator.
    best: int = 0  # Number of the setting that was decided for.
    settled_at: int | None = None  # Calls before.
    under_best: int = 0  # Calls that went by another setting than the default after it was decided.
    tested: int = 0
    blocks: list[Drawn] = field(default_factory=list)

    @property
    def lowest_bytes(self) -> int:
        """The smallest message of the cell."""
        return 1 << self.bin if self.collective != "barrier" else 0

    def gain(self) -> tuple[float, float, float]:
        """Default / decided setting with its 95 % interval, by the blocks of the test."""
        if not self.best or not self.blocks:
            return 1.0, math.nan, math.nan
        ends = (
            bound(self.blocks, ONE_IN_TWENTY),
            estimate(self.blocks),
            bound(self.blocks, ONE_IN_TWENTY, -1),
        )
        low, at, high = (float(np.exp(one[0])) for one in ends)
        return at, low, high

    @property
    def saved_s(self) -> float:
        """Seconds that the decision saved so far."""
        return self.under_best * self.default_s * (1 - 1 / self.gain()[0])

    def obey(self, kind: str, words: Sequence[str]) -> None:
        """Take in one event."""
        if kind == "calls":
            if self.best and self.settled_at is not None:
                self.under_best += int(words[0]) - max(self.settled_at, self.calls)
            self.calls, self.default_s, self.wait_s = int(words[0]), float(words[1]), float(words[2])
        elif kind == "block":
            if int(words[0]) != self.tested:
                self.tested, self.blocks = int(words[0]), []
            tuned = np.array([bool(int(words[1]) >> i & 1) for i in range(_PIECES)])
            self.blocks.append(Drawn.of(np.array([[float(y)] for y in words[2 : 2 + _PIECES]]), tuned))
        elif kind == "settled":
            self.best, self.settled_at, self.calls = int(words[0]), int(words[1]), int(words[1])
        elif kind == "again":
            self.best, self.settled_at, self.tested, self.blocks = 0, None, 0, []


@dataclass(slots=True)
class Switching:
    """Records of the processes of a run."""

    cells: list[Cell] = field(default_factory=list)
    ranks: int = 0
    state: str = ""  # ``on``, ``threads``, ``tolerant``; empty: no rank began.
    ended: str = "killed"
    spent_s: float = 0.0  # Of trying, on rank 0.

    @property
    def saved_s(self) -> float:
        """Saving of all cells, in seconds."""
        return sum(cell.saved_s for cell in self.cells)


def events(texts: Iterable[str]) -> Switching:
    """Records in the processes' files; a last line that was cut off is left out."""
    seen, ends = Switching(), set[str]()
    for text in texts:
        own: dict[str, Cell] = {}
        spent_s, end = 0.0, "killed"
        for line in text[: text.rfind("\n") + 1].splitlines():
            kind, *words = line.split()
            with contextlib.suppress(ValueError, IndexError):  # a full disk cuts lines anywhere
                if kind == "job":
                    seen.ranks, seen.state = seen.ranks + int(words[0]), words[2]
                elif kind == "end":
                    end, spent_s = words[0], float(words[2])
                elif kind == "cell":
                    own[words[0]] = Cell(words[1], int(words[2]), int(words[3]), words[4] == "1")
                elif words[0] in own:
                    own[words[0]].obey(kind, words[1:])
                    spent_s = float(words[4]) if kind == "calls" else spent_s
        ends |= {end} if text.startswith("job ") else set()
        seen.cells += own.values()
        seen.spent_s += spent_s if text.startswith("job ") else 0.0
    seen.ended = next((end for end in WORST if end in ends), seen.ended)
    seen.cells.sort(key=lambda c: -c.calls * (c.default_s + c.wait_s))
    return seen


def budget_of(text: str) -> float:
    """The share of the elapsed time that trying may cost.

    Raises:
        UserError: it is none below a half.
    """
    found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(%?)", text.strip())
    share = float(found[1]) / (100 if found[2] else 1) if found else math.nan
    if not 0 < share <= 0.5:
        raise UserError(f"--budget {text!r}", "a share of the run's time, above 0 % and at most 50 %: 0.5%")
    return share


def learned_in(path: Path | None, stack: str) -> list[tuple[str, int, int, str]]:
    """Decisions of former runs on this stack: collective, bin, ranks, algorithm; no file yet: nothing.

    Raises:
        TableError: a file of another kind, or damaged.
    """
    return [
        (collective, size_bin, ranks, algorithm)
        for (on, collective, size_bin, ranks), algorithm in learned_cells(path).items()
        if on == stack and collective in SWITCHED
    ]


@heeded(signal.SIGXCPU)
def run_job(
    command: Sequence[str],
    reductions: bool,
    budget: str,
    learn: Path | None,
    dry: bool,
    out: Path,
    as_json: bool,
) -> int:
    """Run the application with a switcher between it and its MPI, and say what that decided and saved.

    Raises:
        UserError: no application, a budget that is none, or no place for the result.
        StackError: no MPI, or no compiler for it.
        TableError: ``learn`` is no file of a former run.
        Interrupted: the user ended it.
    """
    share = budget_of(budget)
    out, learn = out.absolute(), learn and learn.absolute()
    for option, path in {"--out": out, "--learn": learn}.items():
        if path and (path.is_dir() or not path.parent.is_dir() or out == learn):
            raise UserError(
                f"{option} {path} is no place for a file", "name one of its own in a directory that is there"
            )
    installation = installation_of(command)
    stack = f"{installation.flavour} {installation.version}"
    former = learned_in(learn, stack)
    offered = offers(installation)
    ended: Ran | Interrupted
    with (
        passed_on(lambda number: None),
        tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as own,
    ):
        variables: dict[str, str] = {}
        if offered:
            library = preload(installation, Path(own), "switcher")
            folder = Path(own) / "run"
            folder.mkdir()
            (folder / "plan").write_text(plan(offered, share, dry, reductions, former), encoding="utf-8")
            variables = recording(library, folder, RUN_FOLDER)
            variables |= {k: v for k, v in unlocked(installation).items() if k not in os.environ}
            variables |= {MODE: os.environ[MODE]} if MODE in os.environ else {}
        sys.stderr.write(_beginning(installation, offered, share, dry, reductions))
        begin = datetime.now(UTC)
        try:
            check()
            ended = run(command, installation, variables, check, alarm())
        except (Interrupted, KeyboardInterrupt):
            ended = Interrupted("interrupted")
        seconds = (datetime.now(UTC) - begin).total_seconds()
        seen = events(_texts(Path(own)))
    seen.ended = seen.ended if isinstance(ended, Ran) else "killed"
    document = _document(command, stack, seconds, share, dry, seen, offered, begin)
    rules = _rules(out, installation, seen, offered, begin)
    kept: list[Path] = []
    try:
        write_files(rules, links=False)  # the user has not named them
        write_files({out: json_text(document)}, mode=0o600)  # command lines are the user's own
        kept += [out, *rules]
        if learn and not dry:
            write_files({learn: json_text(_learned(learn, stack, seen, offered))})
            kept.append(learn)
    finally:  # a job of hours has said what it found out, whatever became of the place meanwhile
        sys.stdout.write(json_text(document) if as_json else summary(seen, offered, seconds, dry, kept))
    if isinstance(ended, Interrupted):
        raise ended
    if ended.exit_code:
        sys.stderr.write(f"{command[0]} ended with exit code {ended.exit_code}\n")
    return ended.exit_code


def _beginning(
    installation: Installation, offered: Mapping[str, Offer], share: float, dry: bool, reductions: bool
) -> str:
    if not offered:
        stack = f"{installation.flavour} {installation.version}"
        return f"run: {stack} cannot be switched while it runs; the job runs as it is\n"
    sums = (
        "reductions too: last bits may change"
        if reductions
        else "of reductions those of whole numbers, where no bit can change: --reductions adds the others"
    )
    what = "measures" if dry else "tunes"
    said = f"run: {what} {', '.join(offered)} ({sums}); trying may cost {100 * share:.3g} % of the time\n"
    return remark(installation) + said


def _texts(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("run/*.run")):
        with path.open("rb") as file:
            yield file.read(_MOST_BYTES).decode(errors="replace")


def _word(cell: Cell, offered: Mapping[str, Offer]) -> str:
    return offered[cell.collective].names[cell.best] if cell.best else "default"


def _document(
    command: Sequence[str],
    stack: str,
    seconds: float,
    share: float,
    dry: bool,
    seen: Switching,
    offered: Mapping[str, Offer],
    begin: datetime,
) -> dict[str, Any]:
    cells = []
    for cell in seen.cells:
        at, low, high = cell.gain()
        cells.append(
            {
                "collective": cell.collective,
                "lowest_bytes": cell.lowest_bytes,
                "ranks": cell.ranks,
                "one_node": cell.one_node,
                "calls": cell.calls,
                "default_s": cell.default_s,
                "waiting_s": cell.wait_s * cell.calls,
                "settled_at": cell.settled_at,
                "algorithm": _word(cell, offered),
                "speedup": finite(at),
                "speedup_95": [finite(low), finite(high)],
                "calls_decided": cell.under_best,
                "saved_s": cell.saved_s,
            }
        )
    return {
        "format": RUN,
        "command": list(without_secrets(command)),
        "date": begin.isoformat(timespec="seconds"),
        "stack": stack,
        "ranks": seen.ranks,
        "state": seen.state,
        "ended": seen.ended,
        "dry": dry,
        "run_s": seconds,
        "budget": share,
        "spent_s": seen.spent_s,
        "saved_s": seen.saved_s,
        "cells": cells,
    }


def _learned(path: Path, stack: str, seen: Switching, offered: Mapping[str, Offer]) -> dict[str, Any]:
    """The file of ``--learn`` with what this run decided in the place of what stood there."""
    settled = (cell for cell in seen.cells if cell.settled_at is not None)
    cells = learned_cells(path) | {(stack, c.collective, c.bin, c.ranks): _word(c, offered) for c in settled}
    names = ("stack", "collective", "bin", "ranks", "algorithm")
    return {"format": LEARNED, "cells": [dict(zip(names, (*k, v), strict=True)) for k, v in cells.items()]}


def _rules(
    out: Path, installation: Installation, seen: Switching, offered: Mapping[str, Offer], begin: datetime
) -> Mapping[Path, str]:
    """Decisions as a file of the stack, for jobs that do not tune themselves."""
    decided = {(c.collective, c.ranks, c.bin): _word(c, offered) for c in reversed(seen.cells) if c.best}
    rules = []
    for collective, ranks, size_bin in sorted(decided):
        point = Point.of({"algorithm": decided[collective, ranks, size_bin]})
        rules.append(Rule(collective, ranks, 1 << size_bin, point))
        if (collective, ranks, size_bin + 1) not in decided:
            rules.append(Rule(collective, ranks, 2 << size_bin, Point()))
    if not rules:
        return {}
    made = Provenance(
        "run", begin.date().isoformat(), f"{installation.flavour} {installation.version}", ranks=seen.ranks
    )
    try:
        texts = exporter(_RULES[installation.flavour]).export(
            Recommendation(Point(), tuple(rules), provenance=made), out.parent
        )
    except UserError as exc:
        sys.stderr.write(f"no file of rules: {exc.message}\n")
        return {}
    return {out.with_name(f"{out.stem}-{name}"): text for name, text in texts.items()}


def summary(
    seen: Switching, offered: Mapping[str, Offer], seconds: float, dry: bool, files: Sequence[Path]
) -> str:
    """The terminal's last lines."""
    kept = f"kept in {', '.join(map(str, files))}" if files else "nothing is kept"
    if seen.state != "on":
        why = {
            "threads": "it uses MPI_THREAD_MULTIPLE",
            "tolerant": "it runs with fault tolerance",
            "": "no rank called MPI_Init of a shared library of this MPI",
        }[seen.state]
        return f"nothing was switched: {why}; {kept}\n"
    lines = []
    for cell in seen.cells:
        where = f"{cell.collective} of {size_text(cell.lowest_bytes)} on {cell.ranks} ranks"
        if dry:
            most = cell.calls * cell.default_s
            count = len(offered[cell.collective].tried)
            takes = f"{cell.calls:,} calls take {most:.3g} s"
            lines.append(f"{where}: {takes}; {count} algorithms would be tried")
        elif cell.best:
            at, low, high = cell.gain()
            lines.append(
                f"{where}: {_word(cell, offered)} in place of the default, {at:.2f}× "
                f"({low:.2f} … {high:.2f}), {cell.calls:,} calls; saved {cell.saved_s:.2g} s"
            )
    undecided = sum(1 for cell in seen.cells if cell.settled_at is None)
    stayed = len(seen.cells) - undecided - sum(1 for cell in seen.cells if cell.best)
    if not dry:
        lines.append(f"the default stays in {stayed} kinds of calls, {undecided} are not decided")
    elif not lines:
        lines.append("too few calls of those that can be switched: none was measured")
    waited = sum(cell.wait_s * cell.calls for cell in seen.cells)
    lines.append(
        f"calls took {seen.saved_s:.2g} s less than by default in a run of {seconds:.3g} s, "
        f"spent {seen.spent_s:.2g} s trying; "
        f"{waited:.2g} s of waiting on rank 0 of each communicator, which no tuning reaches"
    )
    return "\n".join([*lines, kept]) + "\n"
