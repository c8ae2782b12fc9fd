"""An adaptive autotuner for MPI collectives.

Data flows one way, in these steps; the third column names the folders (packages) that do the step:

====  ===========  ==========================  =====================================================
step  what         who                         in → out
====  ===========  ==========================  =====================================================
1     conf         ``commands``, ``scenario``  ``conf=NAME`` → ``Scenario``
2     space        ``space``, ``stacks``       ``search_spaces/*.yaml`` + this machine → ``Space``
3     screening    ``screening``               ``Space`` → two-level design → points
4     trial        ``campaign``                point → ``Trial``, in the journal before it is launched
5     launch       ``stacks``, a launcher      ``Trial`` → ``LaunchRequest`` → ``LaunchOutcome``
6     probe        ``probe``, on every rank    ``request.json`` → ``result.json``: raw samples
7     observation  ``campaign``, ``measure``   samples → medians, standard errors, status
8     store        ``history``                 observation → one line of the journal, synced
9     propose      ``proposers``               (problem, history, seed) → next point → back to 4
10    recommend    ``recommend``               history → Pareto front, recommendation
11    verify       ``verification``            baseline and recommendation → rules without a loss
12    export       ``exporters``, ``views``    recommendation → parameter files, tables, page
====  ===========  ==========================  =====================================================

A *point* assigns values to parameters; the *journal* is the file with everything that a campaign measured.
Steps 9 and 11 lead back to step 4, through the journal. Importing this package imports nothing else of the
program: names for notebooks and scripts (``Campaign``, ``record``, ``diagnose``) are imported at first use.
"""

from importlib import import_module

__version__ = "1.0.0"

__all__ = ["Campaign", "__version__", "diagnose", "explain", "lint_files", "load_space", "record"]


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(import_module("autotune.commands.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
