"""Hydra launcher plugins: thin, for every Hydra program imports them at its start; logic in ``_`` modules."""
