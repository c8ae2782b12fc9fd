"""What each library says can be turned in it, which of it may be, and the space that follows (step 2)."""

from autotune.stacks.knobs.discover import discovered_space
from autotune.stacks.knobs.in_use import openmpi_in_use
from autotune.stacks.knobs.knob import LAYERS, Kind, Knob
from autotune.stacks.knobs.levels import levels
from autotune.stacks.knobs.listing import Listing, listings
from autotune.stacks.knobs.rules import Class, Classed, classify

__all__ = [
    "LAYERS",
    "Class",
    "Classed",
    "Kind",
    "Knob",
    "Listing",
    "classify",
    "discovered_space",
    "levels",
    "listings",
    "openmpi_in_use",
]
