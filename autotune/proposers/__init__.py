"""Choose the next launch (step 9 of the flow): (space, history, seed) → suggestion.

==========  ===========================================================================================
name        method
==========  ===========================================================================================
``curve``   whole curves modelled jointly, expected improvement of the envelope; the default
``ax``      Ax with its own choice of model, one or two objectives
``gp``      plain Gaussian process with expected improvement on the mean of each curve
``optuna``  Optuna's tree-structured Parzen estimator or its Gaussian process
``smac``    SMAC3's random forest
``random``  uniform without repetition
``grid``    every point in order
``ofat``    one factor at a time, shuffled and repeated, as published for MVAPICH2
``staged``  transport × rendezvous first, then zero-copy, then offload × placement
==========  ===========================================================================================

All are stateless: nothing survives a call, so that resuming a campaign is replaying its history. Importing
this package imports none of the libraries that they use.
"""

import warnings
from importlib import import_module
from typing import Any

from autotune.campaign.ports import Proposer
from autotune.errors import ScenarioError, allowed, needing

__all__ = ["PROPOSERS", "proposer"]

PROPOSERS = {
    "ax": "Ax",
    "curve": "Curve",
    "gp": "MeanProcess",
    "grid": "Grid",
    "ofat": "OneFactor",
    "optuna": "Optuna",
    "random": "Random",
    "smac": "Smac",
    "staged": "Staged",
}
"""Class of each proposer, which is in the module of the proposer's name in this package."""

_EXTRAS = {"optuna": ("optuna",), "smac": ("ConfigSpace", "smac")}
"""Proposers whose libraries are an extra of their name; SMAC prints a traceback if ConfigSpace is missing."""


def proposer(name: str, **options: Any) -> Proposer:
    """Return the proposer of a name with its options.

    A library that only this proposer needs is imported here, before the first launch.

    Raises:
        ScenarioError: an unknown name, or an option that this proposer does not have.
        UserError: its library is not installed.
    """
    if name not in PROPOSERS:
        raise ScenarioError(f"unknown proposer {name!r}", allowed(name, PROPOSERS))
    method = getattr(import_module(f"{__name__}.{name}"), PROPOSERS[name])
    option_names = list(method.__dataclass_fields__)
    for option in options:
        if option not in option_names:
            raise ScenarioError(f"proposer {name!r} has no option {option!r}", allowed(option, option_names))
    with needing(name, f"proposer={name}"), warnings.catch_warnings(action="ignore"):
        for library in _EXTRAS.get(name, ()):
            import_module(library)
    instance: Proposer = method(**options)
    return instance
