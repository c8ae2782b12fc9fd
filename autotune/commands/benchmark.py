"""``benchmark --tables DIR``: proposers against each other on recorded campaigns."""

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, fields
from itertools import product
from pathlib import Path

from autotune.campaign.ports import Proposer
from autotune.commands.terminal import bare
from autotune.errors import UserError
from autotune.exporters.writing import write_files
from autotune.history.folder import refuse_links
from autotune.proposers import proposer
from autotune.replay.arena import Result, contest, standings, standings_page, standings_text
from autotune.replay.recorded_table import RecordedTable, read_recorded

Task = tuple[RecordedTable, str, tuple[int, ...], int]


def benchmark(
    tables: Path,
    proposers: Sequence[str],
    launches: Sequence[int],
    seeds: int,
    out: Path | None,
    call_level: Sequence[str] = (),
    per_job: Sequence[str] = (),
    jobs: int = 1,
    collective: str | None = None,
) -> None:
    """Run all contests, print the standings, and write results and plot.

    Proposers are named with options if wanted: ``optuna:sampler=gp``. Parameters of ``call_level`` are swept
    inside each launch, those of ``per_job`` a job must fix, in the tables that have them. ``collective`` is
    for tables of several. All results go to a CSV, with the plot beside it as ``.html``; without a file there
    are the standings only.

    Raises:
        UserError: no tables, budgets or seeds that make no contest, or a file that cannot be written.
        TableError: a table that cannot be used.
        ScenarioError: an unknown proposer or option.
        StorageError: the disk is full or read-only.
    """
    if min(launches, default=0) < 1 or seeds < 1 or jobs < 1:
        raise UserError(
            f"launches={list(launches)}, seeds={seeds}, jobs={jobs}", "needed: whole numbers from 1 on"
        )
    for name in proposers:
        named(name)
    read = [_read(path, call_level, per_job, collective) for path in _files(tables)]
    tasks = [(r, name, tuple(launches), seed) for r, name, seed in product(read, proposers, range(seeds))]
    results: list[Result] = []
    with _table(out) as write:
        for number, finished in enumerate(_all(tasks, jobs), start=1):
            results += finished
            write(finished)
            if sys.stderr.isatty():
                end = "\n" if number == len(tasks) else ""
                bare(sys.stderr).write(f"\r{number} of {len(tasks)} contests{end}")
    table = standings(results)
    sys.stdout.write(standings_text(table))
    if out is not None:
        page = out.with_suffix(".html")
        write_files({page: standings_page(table)}, links=False)
        sys.stderr.write(f"{out}, {page}\n")


def budgets(text: str) -> tuple[int, ...]:
    """The launches in ``4,8,12``.

    Raises:
        UserError: something that is not a whole number.
    """
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise UserError(f"--launches {text}", "expected whole numbers: --launches 4,8,12,16") from None


def named(text: str) -> Proposer:
    """The proposer that ``name:option=value:…`` means.

    Raises:
        ScenarioError: an unknown proposer or option.
        UserError: an option without a value.
    """
    name, *pairs = text.split(":")
    options: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"proposer {text!r}: option {pair!r} has no value", "expected NAME:OPTION=VALUE")
        options[key] = _scalar(value)
    return proposer(name, **options)


def _scalar(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text


def _all(tasks: Sequence[Task], jobs: int) -> Iterator[list[Result]]:
    if jobs == 1:
        yield from map(_contest, tasks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_contest, tasks)


def _contest(task: Task) -> list[Result]:
    recorded, name, launches, seed = task
    return contest(recorded, name, named(name), launches, seed)


def _files(tables: Path) -> list[Path]:
    if tables.is_file():
        return [tables]
    files = sorted([*tables.glob("*.csv"), *tables.glob("*.parquet")])
    if not files:
        raise UserError(
            f"no tables in {tables}", "expected CSV or Parquet files: message_bytes, latency_us, …"
        )
    return files


def _read(
    path: Path, call_level: Sequence[str], per_job: Sequence[str], collective: str | None
) -> RecordedTable:
    """A table, with those of the named parameters that it has."""
    plain = read_recorded(path, collective=collective)
    names = {p.name for p in plain.space.parameters}
    call, job = names & set(call_level), names & set(per_job)
    return read_recorded(path, call, job, collective) if call or job else plain


@contextmanager
def _table(out: Path | None) -> Iterator[Callable[[Sequence[Result]], None]]:
    """A function that appends results to the table, whole contests at a time: an interrupted run keeps them.

    Raises:
        UserError: the file cannot be written; found out before the first contest.
        JournalError: it is a link inside of a campaign.
    """
    if out is None:
        yield lambda _: None
        return
    refuse_links(out)
    try:
        file = out.open("w", encoding="utf-8", newline="")
    except OSError as exc:
        message = f"cannot write {out}: {exc.strerror or exc}"
        raise UserError(message, "choose another file with --out") from exc
    with file:
        writer = csv.DictWriter(file, [f.name for f in fields(Result)])
        writer.writeheader()

        def write(results: Sequence[Result]) -> None:
            for result in results:
                row = asdict(result)
                writer.writerow({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()})
            file.flush()

        yield write
