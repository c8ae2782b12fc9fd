"""An adaptive autotuner for MPI collectives.

Data flows one way; each step is one module or one folder:

====  ===========  =======================  ====================================================
step  what         who                      in → out
====  ===========  =======================  ====================================================
1     conf         ``app``, ``scenario``    ``conf=NAME`` → :class:`Scenario`
2     space        ``space/``, ``stacks/``  ``search_spaces/*.yaml`` + this machine → ``Space``
3     screening    ``screening/``           ``Space`` → two-level design → points
4     trial        ``campaign``             point → ``Trial``, journalled before it is launched
5     launch       a launcher               ``LaunchRequest`` → ``LaunchOutcome``
6     probe        ``probe/``, every rank   ``request.json`` → ``result.json``: raw samples
7     observation  ``observing``,          samples → medians, standard errors, status
                   ``measure/``
8     store        ``journal``              observation → one line, fsync
9     propose      ``proposers/``           (problem, history, seed) → next point → back to 4
10    recommend    ``recommend``            history → Pareto front, recommendation
11    verify       ``campaign`` again       baseline ↔ recommendation, interleaved → kept rules
12    export       ``exporters/``,          recommendation → parameter files, page
                   ``report/``
====  ===========  =======================  ====================================================

The only arrow back (9 → 4) goes through the journal. Importing this package imports nothing else.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("autotune")
except PackageNotFoundError:  # a source tree on PYTHONPATH, never installed
    __version__ = "0+unknown"
