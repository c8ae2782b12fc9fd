"""A cluster simulated in numpy: durations of collectives on a machine that is only described (LogGP).

``machine`` and ``settings`` are the input. ``protocols`` and ``fabric`` give the cost of a message.
``schedule`` and ``trees`` advance all ranks and sizes at once. The algorithms in ``tuned`` and ``components``
are built from these and registered in ``algorithms``; ``model`` is the interface.
``messages`` models patterns, ``planted`` adds knobs with a known effect, ``noise`` adds the noise of real
systems, and ``calibrate`` fits a machine to measurements.

Nothing here reads a file or a clock; all randomness comes from generators that are passed in.
"""
