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

from importlib import import_module
from typing import Any

from autotune.campaign.ports import Proposer
from autotune.errors import ScenarioError, allowed, check_installed

__all__ = ["PROPOSERS", "check_libraries", "proposer"]

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

_LIBRARIES = {
    "ax": ("ax", "botorch"),
    "curve": ("torch", "botorch"),
    "gp": ("torch", "botorch", "gpytorch"),
    "optuna": ("optuna",),
    "smac": ("ConfigSpace", "smac"),
}
"""Maps proposers to the libraries of extras that they need in addition to those of every campaign."""


def proposer(name: str, **options: Any) -> Proposer:
    """Return the proposer with a name and with options.

    Its libraries are not needed for this, so that a campaign can be planned without them.

    Raises:
        ScenarioError: the name is unknown, or the proposer has no option of a given name.
    """
    if name not in PROPOSERS:
        raise ScenarioError(f"unknown proposer {name!r}", allowed(name, PROPOSERS))
    method = getattr(import_module(f"{__name__}.{name}"), PROPOSERS[name])
    option_names = list(method.__dataclass_fields__)
    for option in options:
        if option not in option_names:
            raise ScenarioError(f"proposer {name!r} has no option {option!r}", allowed(option, option_names))
    instance: Proposer = method(**options)
    return instance


def check_libraries(name: str) -> None:
    """Check before the first launch that the libraries of a proposer are installed.

    Raises:
        UserError: one is not.
    """
    check_installed(f"proposer={name}", *_LIBRARIES.get(name, ()))
