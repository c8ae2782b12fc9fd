"""A cluster in numpy: how long a collective takes on a machine that is only described (LogGP).

``machine`` and ``settings`` are the input, ``protocols`` and ``fabric`` give the cost of a message,
``schedule`` and ``trees`` advance all ranks and sizes at once; of these ``tuned`` and ``components`` are
made, registered in ``algorithms``, chosen by ``decisions``, asked by ``model``. ``noise`` is what real
systems add, ``calibrate`` fits a machine to measurements.

Nothing here reads a file or a clock; all randomness comes from generators that are passed in.
"""
