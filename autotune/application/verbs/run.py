"""``run``: start a job that tunes its collectives itself while it is running, without any preparation."""

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

from autotune.application.documents import LEARNED, RUN, learned_cells
from autotune.application.recording import WORST
from autotune.campaign.interruption import alarm, check, heeded
from autotune.errors import Interrupted, UserError
from autotune.exporters import exporter
from autotune.exporters.writing import write_files
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.resources.secret import without_secrets
from autotune.space import Point
from autotune.stacks.application import RUN_FOLDER, Ran, installation_of, passed_on, preload, recording, run
from autotune.stacks.cleared import clearance
from autotune.stacks.installation import Installation
from autotune.stacks.switched import SWITCHED, Offer, offers, plan, remark, unlocked
from autotune.structure import finite
from autotune.verification.evidence import Drawn, bound, estimate
from autotune.verification.sequential import ONE_IN_TWENTY
from autotune.views.documents import answer_text, json_text
from autotune.views.text import size_text

MODE = "AUTOTUNE_RUN_MODE"
"""Name of an environment variable for tests; the value ``random`` selects another algorithm for each call."""
_RULES = {"openmpi": "coll_tuned", "mpich": "mpich_json"}
"""Maps each MPI implementation to the format of its file of rules, for jobs that do not tune themselves."""
_PIECES = 8  # Number of timed pieces of a block, ``PIECES`` in ``probe/switcher/decide.h``.
_MOST_BYTES = 1 << 26  # Largest number of bytes that are read from a process's file.


@dataclass(slots=True)
class Cell:
    """A cell: the calls of one collective, communicator and power of two of the size, with their algorithm.

    ``probe/switcher/decide.h`` describes the trials and tests by which the algorithm is selected. There, and
    in the fields of this class, a setting is one way to run the collective, usually an algorithm.
    """

    collective: str
    bin: int  # Binary logarithm of the message size in bytes, rounded down.
    ranks: int
    one_node: bool  # Whether all ranks of the communicator are on one node.
    calls: int = 0  # Number of calls so far.
    default_s: float = 0.0  # Seconds of a call by default, without waiting for other ranks; 0: not measured.
    wait_s: float = 0.0  # Seconds of a call in which rank 0 of the communicator waits for other ranks.
    best: int = 0  # Number of the selected setting; 0: the default.
    settled_at: int | None = None  # Number of calls before the selection; None: not selected yet.
    under_best: int = 0  # Number of calls with the selected setting; 0 if that is the default.
    tested: int = 0  # Number of the setting that ``blocks`` compare with the default.
    blocks: list[Drawn] = field(default_factory=list)  # Times in the blocks of the current test.

    @property
    def lowest_bytes(self) -> int:
        """Return the smallest message size of the cell in bytes; 0 for a barrier."""
        return 1 << self.bin if self.collective != "barrier" else 0

    def gain(self) -> tuple[float, float, float]:
        """Return the speed-up of the selected setting over the default, with its 95 % interval.

        If the default is selected, or if no test was made because an earlier run selected the setting, the
        speed-up is 1 and the ends of the interval are NaN.
        """
        if not self.best or not self.blocks:
            return 1.0, math.nan, math.nan
        ends = (bound(self.blocks, ONE_IN_TWENTY, side) for side in (1, -1))
        ratio, low, high = (float(np.exp(log[0])) for log in (estimate(self.blocks), *ends))
        return ratio, low, high

    @property
    def saved_s(self) -> float:
        """Return the seconds that the selected setting has saved so far."""
        return self.under_best * self.default_s * (1 - 1 / self.gain()[0])

    def update(self, kind: str, words: Sequence[str]) -> None:
        """Update the cell from a line of a process's file.

        ``kind`` is the first word of the line; ``words`` are those after the second word, the cell's id.

        Raises:
            ValueError, IndexError: the line was cut off.
        """
        if kind == "calls":
            if self.best and self.settled_at is not None:
                self.under_best += int(words[0]) - max(self.settled_at, self.calls)
            self.calls, self.default_s, self.wait_s = int(words[0]), float(words[1]), float(words[2])
        elif kind == "block":
            if int(words[0]) != self.tested:
                self.tested, self.blocks = int(words[0]), []
            tuned = np.array([bool(int(words[1]) >> i & 1) for i in range(_PIECES)])
            self.blocks.append(Drawn(np.array([[float(y)] for y in words[2 : 2 + _PIECES]]), tuned))
        elif kind == "settled":
            self.best, self.settled_at, self.calls = int(words[0]), int(words[1]), int(words[1])
        elif kind == "again":
            self.best, self.settled_at, self.tested, self.blocks = 0, None, 0, []


@dataclass(slots=True)
class Switching:
    """The records of all processes of a run, combined."""

    cells: list[Cell] = field(default_factory=list)
    ranks: int = 0
    state: str = ""
    """``on``: the algorithms of calls were switched; ``threads`` or ``tolerant``: they were not, because the
    application uses MPI_THREAD_MULTIPLE or fault tolerance; empty: no rank called MPI_Init."""
    ending: str = "killed"  # How the run ended, one of ``recording.ENDS``; the worst end of all processes.
    spent_s: float = 0.0  # Seconds that trying algorithms has cost on rank 0.

    @property
    def saved_s(self) -> float:
        """Return the seconds saved in the calls of all cells."""
        return sum(cell.saved_s for cell in self.cells)


def events(texts: Iterable[str]) -> Switching:
    """Combine the records in the texts of the processes' files; lines that were cut off are left out.

    The cells are sorted by the time that their calls took; the longest time comes first.
    """
    switching, endings = Switching(), set[str]()
    for text in texts:
        cells: dict[str, Cell] = {}
        spent_s, end = 0.0, "killed"
        for line in text[: text.rfind("\n") + 1].splitlines():
            kind, *words = line.split()
            with contextlib.suppress(ValueError, IndexError):  # a full disk can cut lines off anywhere
                if kind == "job":
                    switching.ranks, switching.state = switching.ranks + int(words[0]), words[2]
                elif kind == "end":
                    end, spent_s = words[0], float(words[2])
                elif kind == "cell":
                    cells[words[0]] = Cell(words[1], int(words[2]), int(words[3]), words[4] == "1")
                elif words[0] in cells:
                    cells[words[0]].update(kind, words[1:])
                    spent_s = float(words[4]) if kind == "calls" else spent_s
        endings |= {end} if text.startswith("job ") else set()
        switching.cells += cells.values()
        switching.spent_s += spent_s if text.startswith("job ") else 0.0
    switching.ending = next((end for end in WORST if end in endings), switching.ending)
    switching.cells.sort(key=lambda c: -c.calls * (c.default_s + c.wait_s))
    return switching


def budget_of(text: str) -> float:
    """Return the share of the elapsed time that trying algorithms may cost, from a text such as ``0.5%``.

    Raises:
        UserError: the text is no share above 0 and at most one half.
    """
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(%?)", text.strip())
    share = float(match[1]) / (100 if match[2] else 1) if match else math.nan
    if not 0 < share <= 0.5:
        raise UserError(f"--budget {text!r}", "a share of the run's time, above 0 % and at most 50 %: 0.5%")
    return share


def learned_in(path: Path | None, stack: str) -> list[tuple[str, int, int, str]]:
    """Return the (collective, bin, ranks, algorithm) that earlier runs with an MPI library selected.

    ``stack`` is the implementation and version of the library; ``documents.learned_cells`` describes the bin.

    Raises:
        TableError: the file is of another kind, or damaged.
    """
    return [
        (collective, size_bin, ranks, algorithm)
        for (cell_stack, collective, size_bin, ranks), algorithm in learned_cells(path).items()
        if cell_stack == stack and collective in SWITCHED
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
    """Run an application with a library between it and MPI that switches the algorithms of its calls.

    The selected algorithms and the time that they save are printed and written to ``out``. For MPI libraries
    that read files of rules, they are also written to such a file next to ``out``. The arguments are the
    options of ``run``; the result is the application's exit code.

    Raises:
        UserError: no application is named, the budget is no share, or ``out`` or ``learn`` cannot be written.
        StackError: no MPI was found, or no compiler for it.
        TableError: ``learn`` is another kind of file, or damaged.
        Interrupted: the user ended the run.
    """
    share = budget_of(budget)
    out, learn = out.absolute(), learn and learn.absolute()
    for option, path in {"--out": out, "--learn": learn}.items():
        if path and (path.is_dir() or not path.parent.is_dir() or out == learn):
            hint = "name one of its own in a directory that is there"
            raise UserError(f"{option} {path} is no place for a file", hint)
    installation = installation_of(command)
    stack = f"{installation.flavour} {installation.version}"
    former = learned_in(learn, stack)
    offered = offers(installation)
    outcome: Ran | Interrupted
    folders = tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent)
    with passed_on(lambda number: None), folders as scratch:
        variables: dict[str, str] = {}
        if offered:
            library = preload(installation, Path(scratch), "switcher")
            folder = Path(scratch) / "run"
            folder.mkdir()
            (folder / "plan").write_text(plan(offered, share, dry, reductions, former), encoding="utf-8")
            variables = recording(library, folder, RUN_FOLDER)
            variables |= {k: v for k, v in unlocked(installation).items() if k not in os.environ}
            variables |= {MODE: os.environ[MODE]} if MODE in os.environ else {}
        sys.stderr.write(_beginning(installation, offered, share, dry, reductions))
        begin = datetime.now(UTC)
        try:
            check()
            outcome = run(command, installation, variables, check, alarm())
        except (Interrupted, KeyboardInterrupt):
            outcome = Interrupted("interrupted")
        seconds = (datetime.now(UTC) - begin).total_seconds()
        switching = events(_texts(Path(scratch)))
    switching.ending = switching.ending if isinstance(outcome, Ran) else "killed"
    document = {
        "format": RUN,
        "command": list(without_secrets(command)),
        "date": begin.isoformat(timespec="seconds"),
        "stack": stack,
        "ranks": switching.ranks,
        "state": switching.state,
        "ended": switching.ending,
        "dry": dry,
        "run_s": seconds,
        "budget": share,
        "spent_s": switching.spent_s,
        "saved_s": switching.saved_s,
        "cells": [_cell_document(cell, offered) for cell in switching.cells],
    }
    rules = _rules(out, installation, switching, offered, begin)
    written: list[Path] = []
    try:
        write_files(rules, links=False)  # symbolic links are not followed: the user has not named these files
        write_files({out: json_text(document)}, mode=0o600)  # the command line may contain private words
        written += [out, *rules]
        if learn and not dry:
            write_files({learn: json_text(_learned(learn, stack, switching, offered))})
            written.append(learn)
    finally:  # the summary of a long job is printed even if its files cannot be written any more
        text = answer_text("run", document) if as_json else summary(switching, offered, seconds, dry, written)
        sys.stdout.write(text)
    if isinstance(outcome, Interrupted):
        raise outcome
    if outcome.exit_code:
        sys.stderr.write(f"{command[0]} ended with exit code {outcome.exit_code}\n")
    return outcome.exit_code


def _beginning(
    installation: Installation, offered: Mapping[str, Offer], share: float, dry: bool, reductions: bool
) -> str:
    if not offered:
        stack = f"{installation.flavour} {installation.version}"
        return f"run: {stack} cannot be switched while it runs; the job runs as it is\n"
    sums = "of reductions those of whole numbers, where no bit can change: --reductions adds the others"
    if reductions:
        sums = "reductions too: last bits may change"
    action, cost = "measures" if dry else "tunes", f"trying may cost {100 * share:.3g} % of the time"
    return f"{remark(installation)}run: {action} {', '.join(offered)} ({sums}); {cost}\n"


def _texts(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("run/*.run")):
        with path.open("rb") as file:
            yield file.read(_MOST_BYTES).decode(errors="replace")


def _word(cell: Cell, offered: Mapping[str, Offer]) -> str:
    return offered[cell.collective].names[cell.best] if cell.best else "default"


def _cell_document(cell: Cell, offered: Mapping[str, Offer]) -> dict[str, Any]:
    ratio, *ends = cell.gain()
    return {
        "collective": cell.collective,
        "lowest_bytes": cell.lowest_bytes,
        "ranks": cell.ranks,
        "one_node": cell.one_node,
        "calls": cell.calls,
        "default_s": cell.default_s,
        "waiting_s": cell.wait_s * cell.calls,
        "settled_at": cell.settled_at,
        "algorithm": _word(cell, offered),
        "speedup": finite(ratio),
        "speedup_95": [*map(finite, ends)],
        "calls_decided": cell.under_best,
        "saved_s": cell.saved_s,
    }


def _learned(path: Path, stack: str, switching: Switching, offered: Mapping[str, Offer]) -> dict[str, Any]:
    """Return the document of ``--learn``: this run's algorithms, and for other calls those in the file."""
    settled = (cell for cell in switching.cells if cell.settled_at is not None)
    cells = learned_cells(path) | {(stack, c.collective, c.bin, c.ranks): _word(c, offered) for c in settled}
    names = ("stack", "collective", "bin", "ranks", "algorithm")
    return {"format": LEARNED, "cells": [dict(zip(names, (*k, v), strict=True)) for k, v in cells.items()]}


def _rules(
    out: Path, installation: Installation, switching: Switching, offered: Mapping[str, Offer], begin: datetime
) -> Mapping[Path, str]:
    """Return files of rules with the selected algorithms, by path, for jobs that do not tune themselves.

    The MPI library applies a rule for a reduction whatever the reduction's operation is. An algorithm that
    computes wrong results for operations that do not commute is left out and named on standard error.
    """
    decided = {(c.collective, c.ranks, c.bin): _word(c, offered) for c in reversed(switching.cells) if c.best}
    rules, cleared = list[Rule](), clearance(installation.flavour, installation.version)
    unfit = {(c, word) for (c, _, _), word in decided.items() if cleared and cleared.commuting_alone(c, word)}
    if unfit:
        names = ", ".join(" ".join(pair) for pair in sorted(unfit))
        sys.stderr.write(f"not in the file of rules, wrong for operations that do not commute: {names}\n")
    decided = {cell: word for cell, word in decided.items() if (cell[0], word) not in unfit}
    for collective, ranks, size_bin in sorted(decided):
        point = Point.of({"algorithm": decided[collective, ranks, size_bin]})
        rules.append(Rule(collective, ranks, 1 << size_bin, point))
        if (collective, ranks, size_bin + 1) not in decided:
            rules.append(Rule(collective, ranks, 2 << size_bin, Point()))
    if not rules:
        return {}
    stack, date = f"{installation.flavour} {installation.version}", begin.date().isoformat()
    provenance = Provenance("run", date, stack, ranks=switching.ranks)
    recommendation = Recommendation(Point(), tuple(rules), provenance=provenance)
    try:
        texts = exporter(_RULES[installation.flavour]).export(recommendation, out.parent)
    except UserError as exc:
        sys.stderr.write(f"no file of rules: {exc.message}\n")
        return {}
    return {out.with_name(f"{out.stem}-{name}"): text for name, text in texts.items()}


def summary(
    switching: Switching, offered: Mapping[str, Offer], seconds: float, dry: bool, files: Sequence[Path]
) -> str:
    """Return a run's summary for the terminal; the run took ``seconds`` and has written ``files``."""
    kept_text = f"kept in {', '.join(map(str, files))}" if files else "nothing is kept"
    if switching.state != "on":
        reason = {
            "threads": "it uses MPI_THREAD_MULTIPLE",
            "tolerant": "it runs with fault tolerance",
            "": "no rank called MPI_Init of a shared library of this MPI",
        }[switching.state]
        return f"nothing was switched: {reason}; {kept_text}\n"
    lines = []
    for cell in switching.cells:
        call_text = f"{cell.collective} of {size_text(cell.lowest_bytes)} on {cell.ranks} ranks"
        if dry:
            count, total_s = len(offered[cell.collective].assignments), cell.calls * cell.default_s
            time_text = f"{cell.calls:,} calls take {total_s:.3g} s"
            lines.append(f"{call_text}: {time_text}; {count} algorithms would be tried")
        elif cell.best:
            ratio, low, high = cell.gain()
            lines.append(
                f"{call_text}: {_word(cell, offered)} in place of the default, {ratio:.2f}× "
                f"({low:.2f} … {high:.2f}), {cell.calls:,} calls; saved {cell.saved_s:.2g} s"
            )
    undecided = sum(1 for cell in switching.cells if cell.settled_at is None)
    on_default = len(switching.cells) - undecided - sum(1 for cell in switching.cells if cell.best)
    if not dry:
        lines.append(f"the default stays in {on_default} kinds of calls, {undecided} are not decided")
    elif not lines:
        lines.append("too few calls of those that can be switched: none was measured")
    waiting_s = sum(cell.wait_s * cell.calls for cell in switching.cells)
    lines.append(
        f"calls took {switching.saved_s:.2g} s less than by default in a run of {seconds:.3g} s, "
        f"spent {switching.spent_s:.2g} s trying; "
        f"{waiting_s:.2g} s of waiting on rank 0 of each communicator, which no tuning reaches"
    )
    return "\n".join([*lines, kept_text]) + "\n"
