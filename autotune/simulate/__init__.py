"""A cluster in numpy: how long a collective takes on a machine that is only described (LogGP).

============================  ==============================================================================
``machine``, ``settings``     what is given: hardware in numbers, a job's settings
``protocols``, ``fabric``     what one message costs, where each rank sits, what messages share
``schedule``, ``trees``       rounds, rings, bursts and trees, advanced over all ranks and sizes at once
``tuned``                     the algorithms of Open MPI's component of that name
``algorithms``, ``decisions`` their names, and the ones taken by default
``components``                han, and components like hcoll and ucc
``model``                     :func:`predict`
``noise``                     spread, spikes and faults of real systems
``calibrate``                 a machine's numbers from measurements
============================  ==============================================================================

Nothing here reads a file or a clock; all randomness comes from generators that are passed in.
"""
