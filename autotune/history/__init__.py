"""Trials, their observations, the envelopes over them, and the journal that keeps them (steps 4, 7 and 8)."""
