"""Provide launcher plugins for Hydra.

Every Hydra program imports these modules at its start, so they are small: the logic is in the modules whose
names begin with an underscore.
"""
