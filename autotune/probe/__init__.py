"""``python -m autotune.probe DIRECTORY``, on every rank of a launch (step 6 of the flow).

Reads ``request.json``, sweeps collectives × communicator sizes × message sizes × call-level choices inside
of the running job, writes ``result.json`` and ``samples.npz`` (rank 0).
It never sees a space, a trial or a launcher.

=====================  ===================================================================================
``__main__``           one rank; whatever goes wrong there ends all of them
``launch``             the launch: request, proofs, sweeps, result
``proof``              whether the launch is what was asked for: library, environment, variables, UCX
``mpit``               MPI_T variables of the loaded library: read, write, enumerators
``ucx``                what UCX's own log says
``sweep``              cells of one collective: rounds of blocks, checks of results
``tight``              the same with each cell's calls back to back, as OSU and IMB time them
``rule_check``         which calls the library refuses, without any agreement between ranks
``control_variables``  those of choices, one choice in force at a time
``operations``         one declaration for each collective: who sends what, who must find what, the call
``patterns``           data whose place in a buffer shows
``exchange``           buffers, communicator and window of a call
``synchronisation``    how ranks come together before a call: by a barrier, or at agreed moments
``clocks``             one time axis for all ranks
``loops``              the timed loop over mpi4py, and the barrier of sends and receives
``native``             the timed loop in C (``kernel.c``), built where it is used
``overhead``           what timing costs itself
=====================  ===================================================================================

Importing the package imports no MPI. The ranks need the standard library, numpy and mpi4py, nothing else.
"""
