"""Regular expressions that users write; RE2 matches them in a time that is linear in the length of the text.

Python's own module ``re`` backtracks: ``(a+)+$x`` takes 2ⁿ steps on n characters, and no signal can interrupt
them.
"""

from collections.abc import Iterator

import re2

from autotune.errors import UserError

_MOST_STEPS = 1_000
"""Largest number of steps of a compiled pattern; each step takes at most about 20 ns for each byte of text.

For comparison, the pattern ``took ([0-9.]+) s`` has 16 steps."""
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # the exception contains the message


def check_pattern(pattern: str, setting: str, raised: type[UserError] = UserError) -> None:
    """Raise an error unless a text is a valid regular expression with exactly one group.

    Args:
        pattern: The regular expression.
        setting: Name of the setting with this value, for the message.
        raised: Class of the error.

    Raises:
        UserError: an error of the class ``raised``: the text is not a regular expression, is too large, or
            does not have exactly one group.
    """
    assignment = f"{setting}={pattern!r}"
    hint = "the syntax is RE2's: there are no back-references and no look-around"
    try:
        compiled = re2.compile(pattern, _OPTIONS)
    except UnicodeEncodeError as exc:
        raise raised(f"{assignment}: it is no UTF-8", hint) from exc
    except re2.error as exc:
        raise raised(f"{assignment}: {exc.args[0].decode(errors='replace')}", hint) from exc
    if compiled.programsize > _MOST_STEPS:
        raise raised(f"{assignment} is too large: {compiled.programsize} steps", f"at most {_MOST_STEPS}")
    if compiled.groups != 1:
        raise raised(f"{assignment} has {compiled.groups} groups", "needed: exactly one, around the number")


def found(pattern: str, text: str) -> Iterator[str]:
    """Yield the text that the group of a regular expression matches, for each match in order.

    The expression must have passed ``check_pattern``. In RE2 ``$`` matches only at the very end of a text. So
    if nothing matches, the text is searched again without its last line end.
    """
    compiled = re2.compile(pattern, _OPTIONS)
    matches = compiled.finditer(text) if compiled.search(text) else compiled.finditer(text.removesuffix("\n"))
    for match in matches:
        yield match[1] or ""
