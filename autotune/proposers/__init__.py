"""Choose the next launch of a campaign: (space, history, seed) → suggestion.

Place in the flow of ``autotune/__init__.py``: step 9, propose. A *proposer* is an algorithm that chooses the
next launch. A *curve* contains the times of a launch in all slots; a *slot* is a collective with a
communicator size and a message size. An *envelope* contains the best time in each slot over the per-size
choices.

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

No proposer keeps a state between calls, so that a campaign can be resumed by replaying its history. Importing
this package does not import the libraries that the proposers use.
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
"""Maps the name of each proposer to the name of its class. The class is in the module that has the proposer's
name."""

_EXTRAS = {"optuna": ("optuna",), "smac": ("ConfigSpace", "smac")}
"""Maps proposers to libraries that an optional extra with the name of the proposer installs. ConfigSpace
comes before SMAC, because SMAC prints a traceback if ConfigSpace is missing."""


def proposer(name: str, **options: Any) -> Proposer:
    """Return the proposer with a name and with options.

    A library that only this proposer needs is imported now, so that a missing library is noticed before the
    first launch.

    Raises:
        ScenarioError: the name is unknown, or the proposer has no option of a given name.
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
