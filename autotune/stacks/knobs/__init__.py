"""List the variables (*knobs*) that libraries declare, and make a search space of those that may be tuned."""

from autotune.stacks.knobs.discover import Decision, discovered_space
from autotune.stacks.knobs.in_use import openmpi_in_use
from autotune.stacks.knobs.knob import LAYERS, Knob, KnobKind
from autotune.stacks.knobs.levels import levels
from autotune.stacks.knobs.listing import Listing, decided, facts_here, job_facts, listings
from autotune.stacks.knobs.rules import Class, Classed, classify

__all__ = [
    "LAYERS",
    "Class",
    "Classed",
    "Decision",
    "Knob",
    "KnobKind",
    "Listing",
    "classify",
    "decided",
    "discovered_space",
    "facts_here",
    "job_facts",
    "levels",
    "listings",
    "openmpi_in_use",
]
