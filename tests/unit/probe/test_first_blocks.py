"""Which cells of a sweep are timed first, and which are not swept."""

from itertools import count

import pytest

from autotune.probe.first_blocks import NOT_SWEPT, next_first, pending_cells
from autotune.probe.protocol import SweptChoice
from autotune.probe.swept import SweptCell

SIZES = (65536, 8, 1024)
FLAT, LINEAR = [1e-5, 2e-5, 4e-5], [1e-3, 1.1e-3, 1.5e-3]  # Seconds at 8, 1024 and 65536 bytes.


def swept(times, disturbed=()):
    """All cells, begun in the order that is asked for; ``disturbed`` calls take a hundred times as long."""
    choices = {name: SweptChoice({"algorithm": name}) for name in times}
    cells = [SweptCell(size, choice) for size in SIZES for choice in choices.values()]
    order, number = [], count()
    while pending_cells(cells):
        index, hopeless = next_first(cells)
        cell = cells[index]
        if hopeless:
            cell.verdict = ("invalid", hopeless)
            continue
        name = cell.choice.values["algorithm"]
        seconds = times[name][sorted(SIZES).index(cell.message_bytes)]
        cell.add(([seconds * (100 if next(number) in disturbed else 1)], None))
        cell.started = True
        order.append((cell.message_bytes, name))
    return cells, order


def left_out(cells):
    return {(c.message_bytes, c.choice.values["algorithm"]) for c in cells if c.verdict[0] != "ok"}


def test_a_choice_slower_than_the_best_of_a_larger_size_is_not_swept_there():
    cells, order = swept({"linear": LINEAR, "flat": FLAT})
    assert left_out(cells) == {(1024, "linear"), (65536, "linear")}
    (reason,) = (c.verdict[1] for c in cells if c.verdict[0] != "ok" and c.message_bytes == 1024)
    assert reason == f"{NOT_SWEPT}: 1e+03 µs at 8 bytes, where the best at 1024 bytes takes 20 µs"
    assert order.count((8, "linear")) == 2, "what decides is timed again"


def test_a_slow_choice_that_may_still_win_at_larger_sizes_is_swept():
    ring = [1e-4, 1e-4, 1e-4]
    cells, order = swept({"tree": [1e-5, 8e-5, 9e-4], "ring": ring})
    assert not left_out(cells)
    assert order[0] == (8, "tree") and order[-2:] == [(65536, "tree"), (65536, "ring")]


@pytest.mark.parametrize("call", range(6))
def test_one_disturbed_call_leaves_no_cell_out(call):
    near = [1.1e-5, 2.1e-5, 4.1e-5]
    cells, _ = swept({"near": near, "flat": FLAT}, disturbed={call})
    assert not left_out(cells)


def test_a_choice_that_stands_alone_is_always_swept():
    cells, order = swept({"only": LINEAR})
    assert order == [(8, "only"), (1024, "only"), (65536, "only")]
    assert not left_out(cells)
