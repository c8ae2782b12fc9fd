"""``lint FILE --explain``: show which line of a tuning file selects the algorithm of a call, and why."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from autotune.errors import ExitCode, TableError, UserError
from autotune.lint.explained import concerned, explained
from autotune.resources import user_text
from autotune.space import size_in_bytes
from autotune.stacks.asked import Answer, Asked, collective_named
from autotune.stacks.fixed_rules import fixed_algorithm
from autotune.views.documents import answer_text
from autotune.views.text import size_text


def explain(
    path: Path, ranks: int, size: str, collective: str | None, ppn: int | None, mpi: str, as_json: bool
) -> int:
    """Print which algorithm a tuning file selects for a call, which line selects it, and why.

    Args:
        path: The tuning file.
        ranks: Number of ranks of the communicator.
        size: Message size, such as ``64k``.
        collective: The collective; None means every collective that the file selects an algorithm for.
        ppn: Number of ranks on each node; None if unknown.
        mpi: Name of the MPI that reads the file.
        as_json: Print a JSON document in place of text.

    Returns:
        The exit code: 0 if the file selects an algorithm, 1 if it selects none, 5 if its kind is unknown.

    Raises:
        UserError: the file cannot be read, the size, collective or MPI is unknown, or ``ppn`` exceeds
            ``ranks``.
        TableError: the content of the file does not fit its kind.
    """
    call, answers = answers_of(path, ranks, size, collective, ppn, mpi)
    if answers is None:
        sys.stderr.write(f"not explained: {path} is of an unknown kind\n")
        return ExitCode.UNKNOWN
    if not answers:
        sys.stdout.write(f"{path} decides no call of {size_text(call('').nbytes)} on {ranks} ranks\n")
        return ExitCode.FINDING
    if as_json:
        calls = [_document(answer, call(answer.collective)) for answer in answers]
        sys.stdout.write(answer_text("lint-explain", {"calls": calls}))
    else:
        sys.stdout.write("\n".join(_words(answer, call(answer.collective)) for answer in answers))
    return ExitCode.WELL if any(answer.line for answer in answers) else ExitCode.FINDING


def answers_of(
    path: Path, ranks: int, size: str, collective: str | None, ppn: int | None, mpi: str
) -> tuple[Callable[[str], Asked], list[Answer] | None]:
    """Return a function from a collective to the call, and which algorithms a tuning file selects.

    The answers are None for a file of an unknown kind. See ``explain`` for the arguments and errors.
    """
    nbytes = size_in_bytes(size)
    if nbytes is None or nbytes < 0 or nbytes != int(nbytes):
        raise UserError(f"--bytes {size} is no size", "whole bytes, or such as 64k")
    if ppn is not None and ppn > ranks:
        raise UserError(f"--ppn {ppn} is more than --ranks {ranks}", "at most as many on a node as there are")
    text = user_text(path, raised=UserError)
    call = partial(_call, ranks=ranks, nbytes=int(nbytes), ppn=ppn or 0)
    if collective:
        answer = explained(path, text, call(collective_named(collective)), mpi, _read, fixed_algorithm)
        return call, [answer] if answer else None
    answers = concerned(path, text, call, mpi, _read, fixed_algorithm)
    if not answers and explained(path, text, call("allreduce"), mpi, _read, fixed_algorithm) is None:
        return call, None
    return call, answers


def _call(collective: str, ranks: int, nbytes: int, ppn: int) -> Asked:
    return Asked(collective, ranks, nbytes, ppn)


def _read(name: str) -> str | None:
    try:
        return user_text(Path(name))
    except TableError:
        return None


def _words(answer: Answer, call: Asked) -> str:
    head = f"{call.collective} of {size_text(call.nbytes)} on {call.ranks} ranks"
    lines = [
        f"{head} (its size counts {call.counted}):",
        f"  {answer.algorithm or 'left to the library'}  [{answer.component or 'not said'}]",
    ]
    return "\n".join([*lines, *(f"    {why}" for why in answer.why), ""])


def _document(answer: Answer, call: Asked) -> dict[str, object]:
    return {
        "collective": call.collective,
        "comm_size": call.ranks,
        "message_bytes": call.nbytes,
        "size_counts": call.counted,
        "algorithm": answer.algorithm or None,
        "component": answer.component or None,
        "line": answer.line or None,
        "why": answer.why,
    }
