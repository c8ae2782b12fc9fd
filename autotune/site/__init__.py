"""Tune a whole site: measure a few jobs, and extrapolate their gains to jobs of other sizes.

Where the measurements are too few to predict a gain, the choice is left to the MPI library.

Place in the flow: measured times of shapes (collective, nodes, ranks per node, message size) → which setting
to use for every shape.
"""
