"""Provide Hydra's launcher plugins, which every Hydra program imports at its start: keep them thin.

The logic is in the modules with an underscore.
"""
