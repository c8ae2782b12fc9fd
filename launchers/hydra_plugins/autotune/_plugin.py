"""What our launcher plugins take from Hydra's own one, which is private to it and stands here alone.

``Sequential`` runs the jobs of a multirun in this process, one after another.
"""

from hydra._internal.core_plugins.basic_launcher import BasicLauncher as Sequential

__all__ = ["Sequential"]
