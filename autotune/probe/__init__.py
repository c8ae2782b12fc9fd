"""The probe, which every rank of a launch runs: ``python -m autotune.probe DIRECTORY``.

This is step 6 of the data flow in ``autotune/__init__.py``. The probe reads ``request.json``, measures
collectives × communicator sizes × message sizes × choices of algorithm inside of the running MPI job, and
writes ``result.json`` and ``samples.npz`` on rank 0. It depends on no search space, trial or launcher.

``launch`` runs all steps from the request to the result. ``proof`` checks by ``mpit`` and ``ucx`` that a
launch has the settings of its request. ``sweep`` or ``tight`` time the cells, each of which is one message
size with one choice. The calls are declared in ``operations``, synchronised by ``synchronisation`` and made
by ``loops`` or ``native`` (``kernel.c``). Meanwhile ``machine`` observes the load of the cores by other work.

Importing the package imports no MPI. The ranks import only the standard library and mpi4py.
"""
