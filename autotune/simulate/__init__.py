"""A cluster simulated in numpy: durations of collectives, computed from a description of a machine (LogGP).

``machine`` and ``settings`` define the input. ``protocols`` and ``fabric`` compute the cost of a message.
``schedule`` and ``trees`` simulate rounds, rings and trees, for all ranks and message sizes at once. The
algorithms in ``tuned`` and ``components`` are built from these simulations and listed in ``algorithms``.
``model`` is the interface. ``messages`` simulates patterns of messages, ``planted`` adds artificial
parameters with a known effect, ``noise`` adds the noise of real systems, and ``calibrate`` fits a machine to
measurements.

The computed times depend only on the arguments: no simulation reads a file or a clock, and all random numbers
come from generators that are passed in.
"""
