"""Search spaces: parameters, their levels and conditions, and the points (combinations of values) in them."""

from autotune.space.encoding import encode
from autotune.space.parameter import Level, Parameter, Point, Value, check_words, names_in, size_in_bytes
from autotune.space.space import Dropped, Space

__all__ = [
    "Dropped",
    "Level",
    "Parameter",
    "Point",
    "Space",
    "Value",
    "check_words",
    "encode",
    "names_in",
    "size_in_bytes",
]
