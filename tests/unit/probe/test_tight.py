"""How long a run of calls is made, by what the first ones take."""

from types import SimpleNamespace

import numpy as np
import pytest

from autotune.probe.tight import _call_s

CALL_S, STALL_S = 0.3e-6, 6e-3


class Machine:
    """A loop whose rank loses its core once, in the first call of all."""

    def __init__(self):
        self.now_s = 0.0

    def run(self, exchange, calls, starts_s=None, tight=False):
        edges = [self.now_s]
        for _ in range(calls):
            self.now_s += CALL_S + (STALL_S if self.now_s == 0 else 0)
            edges.append(self.now_s)
        if exchange.operation.in_a_row:
            edges = np.linspace(edges[0], edges[-1], calls + 1)
        return np.array(edges[:-1]), np.array(edges[1:])


@pytest.mark.parametrize("in_a_row", [False, True])
def test_a_stall_among_the_first_calls_says_nothing_about_calls(in_a_row):
    exchange = SimpleNamespace(operation=SimpleNamespace(in_a_row=in_a_row))
    assert _call_s(Machine(), exchange) == pytest.approx(CALL_S)
