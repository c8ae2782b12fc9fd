"""Programs that every rank of a launch runs (step 6 of the flow): ``python -m autotune.probe DIRECTORY``.

The probe reads ``request.json``, sweeps collectives × communicator sizes × message sizes × call-level choices
inside of the running job, and writes ``result.json`` and ``samples.npz`` on rank 0. It knows nothing of
spaces, trials or launchers.

``launch`` runs the whole course. ``proof`` checks by ``mpit`` and ``ucx`` that a launch has the settings of
its request. Cells are timed by ``sweep`` or ``tight``; their calls are declared in ``operations``,
synchronised by ``synchronisation`` and made by ``loops`` or ``native`` (``kernel.c``). ``machine`` watches
the cores meanwhile.

Importing the package imports no MPI. The ranks import the standard library and mpi4py, nothing else.
"""
