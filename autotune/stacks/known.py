"""What is known of Open MPI and UCX without having them: their names, and the words of ``mpirun``."""

from autotune.resources import facts

KNOWN = facts("stacks/known")  # The tables of ``known.toml``, which says what each holds.
