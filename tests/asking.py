"""Requests to the probe with the shipped defaults for whatever a test does not care about."""

from autotune.probe.protocol import ProbeRequest
from autotune.scenario import defaults

DEFAULTS = {
    key: value for key, value in defaults()["probe"].items() if key in ProbeRequest.__dataclass_fields__
}

FEW_CALLS = {"budget_s": 60.0, "precision": 0.9}
"""For requests whose cells are to be measured: they end by their calls, beside other work too."""


def probe_request(*given, **changes) -> ProbeRequest:
    """A request for these collectives and sizes, by default but for the changes."""
    return ProbeRequest(*given, **{**DEFAULTS, **changes})
