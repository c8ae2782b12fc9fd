"""Choose the next launch of a campaign: (space, history, seed) → suggestion.

Place in the flow of ``autotune/__init__.py``: step 9, propose. A *curve* is the times of a launch over all
slots (collective, communicator size, message size). The *envelope* is the best time in each slot over the
per-size choices.

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

No proposer has a state: nothing survives a call, so that a campaign is resumed by replaying its history.
Importing this package imports none of the libraries that the proposers use.
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
"""Maps the name of each proposer to its class, which is in this package's module of the same name."""

_EXTRAS = {"optuna": ("optuna",), "smac": ("ConfigSpace", "smac")}
"""Maps proposers to the libraries that an optional extra of the same name installs. ConfigSpace comes before
SMAC, which prints a traceback if ConfigSpace is missing."""


def proposer(name: str, **options: Any) -> Proposer:
    """Return a proposer, given its name and its options.

    A library that only this proposer needs is imported here, before the first launch.

    Raises:
        ScenarioError: the name is unknown, or the proposer does not have such an option.
        UserError: the proposer's library is not installed.
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
