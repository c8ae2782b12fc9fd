"""What every rank runs: calls of collectives, each compared with what was computed here, without any MPI.

    program.py FOLDER REQUEST

``REQUEST`` is JSON: ``collectives`` to call in this order, and ``skip``, pairs of a collective and a case.
Each rank writes lines of JSON to a file of its own in the folder: the case that begins, and what was wrong.
It imports mpi4py and NumPy alone, as the other stacks' environments have nothing else.
"""

import json
import os
import sys
import time
from dataclasses import dataclass

import mpi4py

mpi4py.rc.thread_level = "serialized"

import numpy as np  # noqa: E402  the line above comes before the import of MPI
from mpi4py import MPI  # noqa: E402

UNTOUCHED = -77  # What stands in every integer that no call may change.
GUARD = 16  # Integers before and behind what a call may use.
BIG = 2100  # Units of two integers: 16,800 bytes, two segments of 8192 bytes and a rest.
MODULUS = 65521  # Of the matrices' elements: their products fit 64 bits.

WORLD = MPI.COMM_WORLD.Dup()
RANK, RANKS = WORLD.rank, WORLD.size


@dataclass
class Layout:
    """How a unit of two integers lies in memory."""

    name: str
    unit: MPI.Datatype
    offsets: tuple  # Of the two integers, in integers.
    extent: int  # From one unit to the next, in integers.
    elements: int = 1  # Of the datatype in a unit.

    def places(self, unit_numbers):
        """Integers of these units, relative to the address that a call is given."""
        starts = np.asarray(unit_numbers, dtype=np.int64).reshape(-1, 1) * self.extent
        return (starts + np.array(self.offsets)).reshape(-1)


def layouts():
    """Kinds of memory, by name."""
    size = MPI.INT.Get_size()
    types = [
        Layout("contiguous", MPI.INT, (0, 1), 2, elements=2),
        Layout("vector", MPI.INT.Create_vector(2, 1, 2), (0, 2), 3),
        Layout("resized", MPI.INT.Create_contiguous(2).Create_resized(0, 5 * size), (0, 1), 5),
        Layout(
            "struct",
            MPI.Datatype.Create_struct([1, 1], [size, 3 * size], [MPI.INT, MPI.INT]).Create_resized(
                0, 4 * size
            ),
            (1, 3),
            4,
        ),
        Layout("negative stride", MPI.INT.Create_hvector(2, 1, -2 * size), (0, -2), 3),
        Layout("reversed", MPI.INT.Create_hindexed([1, 1], [size, 0]), (1, 0), 2),
    ]
    for layout in types[1:]:
        layout.unit.Commit()
    return {layout.name: layout for layout in types}


LAYOUTS = layouts()


class Memory:
    """Integers of one rank, with guards around what a call may use."""

    def __init__(self, layout, units):
        self.layout, self.units = layout, units
        used = layout.places(np.arange(max(units, 1)))
        self.base = GUARD - min(0, int(used.min()))
        self.ints = np.full(self.base + max(int(used.max()), 0) + 1 + GUARD, UNTOUCHED, dtype=np.int32)
        self.expected = self.ints.copy()

    def put(self, unit_numbers, values, expected_only=False):
        """Let these units hold these values; ``expected_only``: as the result of the call."""
        places = self.base + self.layout.places(unit_numbers)
        self.expected[places] = values
        if not expected_only:
            self.ints[places] = values

    def at(self):
        """The buffer as a call takes it."""
        address = self.ints.ctypes.data + self.ints.itemsize * self.base
        return MPI.memory.fromaddress(address, self.ints.nbytes)

    def words(self, units):
        """What mpi4py takes for so many units."""
        return [self.at(), units * self.layout.elements, self.layout.unit]

    def words_v(self, counts, starts):
        """What mpi4py takes for blocks."""
        each = self.layout.elements
        return [self.at(), ([n * each for n in counts], [n * each for n in starts]), self.layout.unit]

    def fault(self, what):
        """What is wrong, in words; empty: nothing."""
        bad = np.flatnonzero(self.ints != self.expected)
        if not len(bad):
            return ""
        used = self.base + self.layout.places(np.arange(self.units))
        gaps = int((~np.isin(bad, used)).sum())
        i = int(bad[0])
        where = f"{len(bad)} of {len(used)} integers of the {what} buffer wrong"
        if gaps:
            where = f"{len(bad)} integers of the {what} buffer wrong, {gaps} of them outside of the type"
        return f"{where} (rank {RANK}: {int(self.ints[i])}, right is {int(self.expected[i])})"


def call(name, *arguments, later=False, **named):
    """Call a collective of MPI; ``later``: its variant that does not block, and wait."""
    if later:
        getattr(WORLD, f"I{name.lower()}")(*arguments, **named).Wait()
    else:
        getattr(WORLD, name)(*arguments, **named)


def block(source, target, units, salt=0):
    """Values of the units that one rank has for another."""
    return (source * 1009 + target * 10007 + salt + 3 * np.arange(2 * units)) % 1000003


def compared(sent, received):
    return (sent.fault("send") if sent else "") or (received.fault("receive") if received else "")


def bcast(case):
    root, units = case["root"] % RANKS, case["units"]
    layout = LAYOUTS[case["send"] if root == RANK else case["receive"]]
    memory = Memory(layout, units)
    memory.put(np.arange(units), block(root, 0, units), expected_only=root != RANK)
    call("Bcast", memory.words(units), root=root, later=case["later"])
    return compared(None, memory)


def gather(case):
    root, units = case["root"] % RANKS, case["units"]
    in_place = case["in_place"] and root == RANK
    sent = None if in_place else Memory(LAYOUTS[case["send"]], units)
    received = Memory(LAYOUTS[case["receive"]], units * RANKS) if root == RANK else None
    if sent:
        sent.put(np.arange(units), block(RANK, 0, units))
    if received:
        for other in range(RANKS):
            own = in_place and other == RANK
            received.put(other * units + np.arange(units), block(other, 0, units), expected_only=not own)
    WORLD.Gather(
        MPI.IN_PLACE if in_place else sent.words(units),
        received.words(units) if received else None,
        root=root,
    )
    return compared(sent, received)


def scatter(case):
    root, units = case["root"] % RANKS, case["units"]
    in_place = case["in_place"] and root == RANK
    sent = Memory(LAYOUTS[case["send"]], units * RANKS) if root == RANK else None
    received = None if in_place else Memory(LAYOUTS[case["receive"]], units)
    if sent:
        for other in range(RANKS):
            sent.put(other * units + np.arange(units), block(root, other, units))
    if received:
        received.put(np.arange(units), block(root, RANK, units), expected_only=True)
    WORLD.Scatter(
        sent.words(units) if sent else None, MPI.IN_PLACE if in_place else received.words(units), root=root
    )
    return compared(sent, received)


def _starts(counts):
    """Displacements that put the last block first."""
    return [sum(counts[i + 1 :]) for i in range(len(counts))]


def allgather(case):
    v = case["uneven"]
    counts = [case["units"] * ((3 * r + 1) % 4) for r in range(RANKS)] if v else [case["units"]] * RANKS
    starts = _starts(counts) if v else [r * case["units"] for r in range(RANKS)]
    sent = None if case["in_place"] else Memory(LAYOUTS[case["send"]], counts[RANK])
    received = Memory(LAYOUTS[case["receive"]], sum(counts))
    if sent:
        sent.put(np.arange(counts[RANK]), block(RANK, 0, counts[RANK]))
    for other in range(RANKS):
        own = case["in_place"] and other == RANK
        values = block(other, 0, counts[other])
        received.put(starts[other] + np.arange(counts[other]), values, expected_only=not own)
    send = sent.words(counts[RANK]) if sent else MPI.IN_PLACE
    if case["v"]:
        WORLD.Allgatherv(send, received.words_v(counts, starts))
    else:
        call("Allgather", send, received.words(case["units"]), later=case["later"])
    return compared(sent, received)


def alltoall(case):
    factor = 1 if case["in_place"] else 2  # in place, both directions have one size

    def count(source, target):
        return case["units"] * ((factor * source + target) % 3) if case["uneven"] else case["units"]

    to = [count(RANK, other) for other in range(RANKS)]
    of = [count(other, RANK) for other in range(RANKS)]
    order = _starts if case["uneven"] else (lambda counts: [i * case["units"] for i in range(RANKS)])
    to_start, of_start = order(to), order(of)
    sent = None if case["in_place"] else Memory(LAYOUTS[case["send"]], sum(to))
    received = Memory(LAYOUTS[case["receive"]], sum(of))
    for other in range(RANKS):
        units = np.arange(of[other])
        if sent:
            sent.put(to_start[other] + np.arange(to[other]), block(RANK, other, to[other]))
        else:
            received.put(of_start[other] + units, block(RANK, other, of[other]))
        received.put(of_start[other] + units, block(other, RANK, of[other]), expected_only=True)
    if case["v"]:
        send = sent.words_v(to, to_start) if sent else MPI.IN_PLACE
        WORLD.Alltoallv(send, received.words_v(of, of_start))
    else:
        WORLD.Alltoall(sent.words(case["units"]) if sent else MPI.IN_PLACE, received.words(case["units"]))
    return compared(sent, received)


# Reductions. An operand is four integers: a matrix, whose product is associative and does not commute.


def _product(left, right):
    (a, b, c, d), (e, f, g, h) = (m.astype(np.int64).T for m in (left, right))
    rows = (a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h)
    return (np.stack(rows, axis=1) % MODULUS).astype(np.int32)


GAPPED = (0, 1, 2, 4)  # Places of a matrix with gaps, of six integers.


def _user(function, places, extent):
    places = np.array(places)

    def called(first, second, datatype):
        left = np.frombuffer(first, dtype=np.int32).reshape(-1, extent)
        right = np.frombuffer(second, dtype=np.int32).reshape(-1, extent)
        right[:, places] = function(left[:, places], right[:, places])

    return called


def operations():
    """Name → operation, datatype, places of the integers of an operand, its extent, the function."""
    size = MPI.INT.Get_size()
    whole = MPI.INT.Create_contiguous(4).Commit()
    gapped = MPI.INT.Create_indexed([3, 1], [0, 4]).Create_resized(0, 6 * size).Commit()
    dense = (0, 1, 2, 3)

    def own(function, commute, *operand):
        _, places, extent = operand
        return MPI.Op.Create(_user(function, places, extent), commute=commute), *operand, function

    return {
        "sum": (MPI.SUM, None, dense, 4, np.add),
        "greatest": (MPI.MAX, None, dense, 4, np.maximum),
        "own sum": own(np.add, True, whole, dense, 4),
        "own sum with gaps": own(np.add, True, gapped, GAPPED, 6),
        "product": own(_product, False, whole, dense, 4),
        "product with gaps": own(_product, False, gapped, GAPPED, 6),
    }


OPERATIONS = operations()


def operand(rank, units):
    """Four integers for each unit."""
    return ((rank * 7919 + 31 * np.arange(4 * units)) % 1009).astype(np.int32).reshape(-1, 4)


def folded(function, ranks, units):
    """The operands of these ranks put together from the left."""
    result = operand(ranks[0], units)
    for rank in ranks[1:]:
        result = function(result, operand(rank, units))
    return result


class Operands(Memory):
    """Memory of operands."""

    def __init__(self, name, units):
        op, datatype, places, extent, self.function = OPERATIONS[name]
        layout = Layout(name, datatype or MPI.INT, places, extent, elements=1 if datatype else 4)
        super().__init__(layout, units)
        self.op = op


def reduction(case):
    collective, units, name = case["collective"], case["units"], case["operation"]
    root = case["root"] % RANKS
    blocks = collective in ("reduce_scatter", "reduce_scatter_block")
    counts = [units] * RANKS
    if collective == "reduce_scatter" and case["uneven"]:
        counts = [units * ((3 * r + 1) % 4) for r in range(RANKS)]
    total = sum(counts) if blocks else units
    sent = Operands(name, total)
    receives = collective != "reduce" or root == RANK
    in_place = case["in_place"] and receives
    sent.put(np.arange(total), operand(RANK, total).reshape(-1))
    until = {"scan": RANK + 1, "exscan": RANK}.get(collective, RANKS)
    before = np.arange(total)
    result = folded(sent.function, range(until), total) if until else None
    if blocks:
        start = sum(counts[:RANK])
        result, before = result[start : start + counts[RANK]], np.arange(counts[RANK])
    received = sent if in_place else Operands(name, len(before)) if receives else None
    if receives and result is not None:
        received.put(before, result.reshape(-1), expected_only=True)
    each, op = sent.layout.elements, sent.op
    send = MPI.IN_PLACE if in_place else sent.words(total)
    out = received.words(counts[RANK] if collective == "reduce_scatter" else units) if receives else None
    if collective == "reduce":
        call("Reduce", send, out, op=op, root=root, later=case["later"])
    elif collective == "reduce_scatter":
        out = received.words(total) if in_place else out
        WORLD.Reduce_scatter(send, out, [n * each for n in counts], op=op)
    elif collective == "reduce_scatter_block":  # mpi4py takes the count of a block for both
        WORLD.Reduce_scatter_block(MPI.IN_PLACE if in_place else sent.words(units), out, op=op)
    else:
        call(collective.capitalize(), send, out, op=op, later=case["later"])
    if in_place and blocks:
        # Nothing is promised of the operands behind the result: untouched libraries change them as well.
        behind = sent.base + sent.layout.places(np.arange(len(before), total))
        received.expected[behind] = received.ints[behind]
    return compared(None if in_place else sent, received)


def barrier(case):
    late = case["root"] % RANKS
    if late == RANK:
        time.sleep(0.02)
    entered = time.monotonic()
    WORLD.Barrier()
    left = time.monotonic()
    if RANK:
        WORLD.send((entered, left), 0)
        return ""
    times = [(entered, left), *(WORLD.recv(source=other) for other in range(1, RANKS))]
    last, first = max(one[0] for one in times), min(one[1] for one in times)
    return "" if first >= last else f"a rank left {1000 * (last - first):.3g} ms before the last one came"


ALIKE = [("contiguous", "contiguous"), ("vector", "vector"), ("negative stride", "negative stride")]
UNLIKE = [
    ("vector", "contiguous"),
    ("contiguous", "vector"),
    ("resized", "struct"),
    ("struct", "negative stride"),
    ("negative stride", "contiguous"),
    ("reversed", "resized"),
]


def cases(collective):
    """All cases of a collective: (name, what ``barrier`` and the others take)."""
    later = collective.startswith("i")
    collective = collective.removeprefix("i")
    plain = {"root": 0, "uneven": False, "in_place": False, "v": collective.endswith("v"), "later": later}
    rooted = collective in ("bcast", "gather", "scatter", "reduce")
    roots = (0, -1) if rooted else (0,)
    if collective == "barrier":
        return [
            (f"rank {late} is late", plain | {"root": late, "collective": collective}) for late in (0, 1, -1)
        ]
    named = []
    if collective in ("bcast", "gather", "scatter", "allgather", "allgatherv", "alltoall", "alltoallv"):
        for send, receive in ALIKE + UNLIKE:
            both = roots if (send, receive) in (*ALIKE[:2], UNLIKE[0]) else (roots[-1],)
            sizes = (5, BIG) if send != "reversed" else (1, 5)
            named += [
                plain | {"send": send, "receive": receive, "units": units, "root": root}
                for units in sizes
                for root in both
            ]
        for send, receive in (ALIKE[0], UNLIKE[0]):
            named.append(plain | {"send": send, "receive": receive, "units": 0, "root": roots[-1]})
            named.append(plain | {"send": send, "receive": receive, "units": 1, "root": roots[-1]})
        if collective != "bcast":
            for layout in ("contiguous", "resized", "negative stride"):
                for units in (0, 1, 5, BIG):
                    both = {"send": layout, "receive": layout, "units": units, "in_place": True}
                    named.append(plain | both | {"root": roots[-1]})
        if plain["v"]:
            named += [one | {"uneven": True} for one in named]
    else:
        for operation in OPERATIONS:
            for units in (0, 1, 5, BIG // 2):
                for in_place in (False, True):
                    for root in roots if units == 5 else (roots[-1],):
                        case = {"operation": operation, "units": units, "in_place": in_place, "root": root}
                        named.append(plain | case)
        if collective == "reduce_scatter":
            named += [one | {"uneven": True} for one in named]
    return [(_title(one), one | {"collective": collective}) for one in named]


def _title(case):
    types = case.get("operation") or f"{case['send']} to {case['receive']}"
    words = [types, f"{case['units']} units"]
    words += ["in place"] if case["in_place"] else []
    words += ["uneven"] if case["uneven"] else []
    words += ["last rank is root"] if case["root"] == -1 else []
    return ", ".join(words)


CALLS = {
    "bcast": bcast,
    "gather": gather,
    "scatter": scatter,
    "allgather": allgather,
    "allgatherv": allgather,
    "alltoall": alltoall,
    "alltoallv": alltoall,
    "barrier": barrier,
}


def together():
    """Let nobody begin a case before all have ended the last one, by messages from pair to pair."""
    step = 1
    while step < RANKS:
        WORLD.sendrecv(None, dest=(RANK + step) % RANKS, source=(RANK - step) % RANKS)
        step *= 2


def main():
    folder, request = sys.argv[1], json.loads(sys.argv[2])
    skip = {tuple(one) for one in request["skip"]}
    file = os.open(f"{folder}/{RANK}.jsonl", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def write(*words):
        os.write(file, (json.dumps(words) + "\n").encode())

    for collective in request["collectives"]:
        for name, case in cases(collective):
            if (collective, name) in skip:
                continue
            together()
            write("begin", collective, name)
            try:
                fault = CALLS.get(case["collective"], reduction)(case)
            except MPI.Exception as exc:
                write("fault", collective, name, f"error: {exc.Get_error_string()}")
                os._exit(9)  # the others may wait for this rank without end
            if fault:
                write("fault", collective, name, fault)
        write("done", collective)
    together()
    write("end")


if __name__ == "__main__":
    main()
