"""The classic rules file of ``coll_tuned`` as Open MPI looks calls up in it.

The text must be one that its reader takes (``lint.rules`` says whether it does). The reader of Open MPI
takes the next number wherever it stands and skips everything else; a search goes from the front while bounds
are not larger: the first communicator size serves all smaller ones too, and the last one all larger ones.

References:
    Open MPI 5.0, ompi/mca/coll/tuned: coll_tuned_dynamic_file.c, coll_tuned_dynamic_rules.c.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from autotune.collectives import COLLECTIVES, Lookup
from autotune.stacks import coll_tuned
from autotune.stacks.asked import Answer, Asked, last_up_to

_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|\d+")
HEADER = "rule-file-version-"
NAMES = {number: name for name, number in coll_tuned.COLLECTIVE_IDS.items()}


@dataclass(frozen=True, slots=True)
class RulesRow:
    """One row."""

    line: int
    row: coll_tuned.TunedRow


@dataclass(frozen=True, slots=True)
class RulesEntry:
    """The rows of one communicator size."""

    line: int
    comm_size: int
    rows: tuple[RulesRow, ...]


def heading(lines: list[str]) -> tuple[bool, bool]:
    """Whether a file has a header, and whether that is of a version whose rows have five numbers."""
    headed = bool(lines) and lines[0].startswith(HEADER)
    return headed, headed and lines[0].removeprefix(HEADER).strip() != "1"


def entries(text: str) -> Mapping[str, tuple[RulesEntry, ...]]:
    """Collective → its entries, in the order of the file; of one that comes twice the later ones."""
    lines = text.splitlines()
    headed, five = heading(lines)
    numbers = _numbers(lines, headed)
    widths = {n: len(_NUMBER.findall(line.partition("#")[0])) for n, line in enumerate(lines, 1)}

    def row() -> RulesRow:
        (line, bound), *rest = (next(numbers) for _ in range(4))
        if five and widths[line] > 4:
            next(numbers)  # requests, in the second version
        return RulesRow(line, coll_tuned.TunedRow(bound, *(value for _, value in rest)))

    found: dict[str, tuple[RulesEntry, ...]] = {}
    for _ in range(next(numbers)[1]):
        name = NAMES[next(numbers)[1]]
        made = []
        for _ in range(next(numbers)[1]):
            line, comm_size = next(numbers)
            made.append(RulesEntry(line, comm_size, tuple(row() for _ in range(next(numbers)[1]))))
        found[name] = tuple(made)
    return found


def _numbers(lines: list[str], headed: bool) -> Iterator[tuple[int, int]]:
    for number, line in enumerate(lines, 1):
        if headed and number == 1:
            continue
        for text in _NUMBER.findall(line.partition("#")[0]):
            octal = len(text) > 1 and text.isdigit() and text[0] == "0"
            yield number, int(text, 8 if octal else 0)


def looked_up(name: str, text: str, call: Asked, version: tuple[int, int]) -> Answer:
    """Which row a call reaches, in a file of that name."""
    answer = Answer(call.collective)
    own = entries(text).get(call.collective)
    if not own:
        answer.why.append(f"{name} has no rules for {call.collective}")
        return answer
    entry = own[last_up_to([one.comm_size for one in own], call.ranks)]
    if call.ranks < entry.comm_size:
        which = f"the first one, which serves all smaller communicators too: {call.ranks} ranks reach it"
    elif entry is own[-1] and call.ranks > entry.comm_size:
        which = f"the last one, which serves all larger communicators: {call.ranks} ranks reach it"
    else:
        which = f"the last one up to {call.ranks} ranks"
    answer.why.append(f"{name}:{entry.line}: the entry for {entry.comm_size} ranks is {which}")
    if not entry.rows:
        return answer
    threshold = coll_tuned.threshold_bytes(call.collective, call.nbytes, call.ranks)
    answer.why.append(_compared(call, threshold))
    row = entry.rows[last_up_to([one.row.threshold_bytes for one in entry.rows], threshold)]
    answer.why.append(
        f"{name}:{row.line}: the row from {row.row.threshold_bytes} bytes on is the last up to that"
    )
    answer.line = row.line
    known = coll_tuned.algorithms(call.collective, version)
    number = row.row.algorithm
    if number >= len(known):
        answer.algorithm = (
            f"none: there is no {call.collective} algorithm {number}, the call ends with MPI_ERR_ARG"
        )
    elif number:
        rest = [
            f"{what} {value}"
            for what, value in (("fan-out", row.row.fanout), ("segments of", row.row.segment_bytes))
            if value
        ]
        answer.algorithm = ", ".join([f"{known[number]} ({number})", *rest])
    else:
        answer.why.append("algorithm 0 leaves it to coll_tuned's own fixed rules")
    return answer


def _compared(call: Asked, threshold: int) -> str:
    """The quantity that rows are compared with, and its value here."""
    lookup = (openmpi := COLLECTIVES[call.collective].openmpi) and openmpi.lookup
    if lookup in (Lookup.TOTAL, Lookup.ROOT):
        said = f"rows of {call.collective} are compared with the {lookup.value}: "
        return f"{said}{call.nbytes} × {call.ranks} = {threshold}"
    if lookup is Lookup.SIZE:
        return f"rows of {call.collective} are compared with the {lookup.value}: {threshold}"
    return f"rows of {call.collective} do not differ by its message size"
