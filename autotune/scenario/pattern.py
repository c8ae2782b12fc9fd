"""Regular expressions that users write, matched by RE2 in a time linear in the length of the text.

Python's own module ``re`` backtracks: ``(a+)+$x`` takes 2ⁿ steps on n characters, which no signal interrupts.
"""

from collections.abc import Iterator

import re2

from autotune.errors import UserError

_MOST_STEPS = 1_000
"""Largest number of steps of a compiled pattern; a step takes at most some 20 ns for each byte of text.

The pattern ``took ([0-9.]+) s`` has 16 steps."""
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # the exception contains the message


def check_pattern(pattern: str, setting: str, raised: type[UserError] = UserError) -> None:
    """Raise an error unless a text is a valid regular expression with exactly one group.

    Args:
        pattern: The text.
        setting: Name of the setting that has this value, for the message.
        raised: Class of the error.

    Raises:
        UserError: ``raised``: the text is no regular expression, is too large, or does not have one group.
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
    """Yield what the group of a regular expression matches, for each match in the order of the text.

    The expression must have passed ``check_pattern``. In RE2 ``$`` matches only at the very end of the text.
    So if nothing matches, the text is searched once more without its last line end.
    """
    compiled = re2.compile(pattern, _OPTIONS)
    matches = compiled.finditer(text) if compiled.search(text) else compiled.finditer(text.removesuffix("\n"))
    for match in matches:
        yield match[1] or ""
