"""A cluster simulated in numpy: durations of collectives, computed from a description of the machine (LogGP).

``machine`` and ``settings`` are the input. ``protocols`` and ``fabric`` compute the cost of a message.
``schedule`` and ``trees`` simulate rounds, rings and trees, for all ranks and message sizes at once. The
algorithms in ``tuned`` and ``components`` are built from these and listed in ``algorithms``; ``model`` is the
interface. ``messages`` simulates patterns of messages, ``planted`` adds artificial parameters with a known
effect, ``noise`` adds the noise of real systems, and ``calibrate`` fits a machine to measurements.

The times that these modules compute depend only on their arguments: no simulation reads a file or a clock,
and all randomness comes from generators that are passed in.
"""
