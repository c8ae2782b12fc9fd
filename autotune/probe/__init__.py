"""``python -m autotune.probe DIRECTORY``, on every rank of a launch (step 6 of the flow).

Reads ``request.json``, sweeps collectives × communicator sizes × message sizes × call-level choices inside
of the running job, writes ``result.json`` and ``samples.npz`` (rank 0).
It never sees a space, a trial or a launcher.

``launch`` is the whole course. That a launch is what was asked for shows ``proof``, by ``mpit`` and ``ucx``;
cells are timed by ``sweep`` or ``tight``, their calls declared in ``operations``, brought together by
``synchronisation`` and made by ``loops`` or ``native`` (``kernel.c``), on cores that ``cores`` watches.

Importing the package imports no MPI. The ranks need the standard library, numpy and mpi4py, nothing else.
"""
