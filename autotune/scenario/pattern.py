"""Regular expressions that users write, matched by RE2 in a time linear in the text.

With backtracking ``(a+)+$x`` takes 2ⁿ steps on n characters, in C, where no signal is obeyed.
"""

from collections.abc import Iterator

import re2

from autotune.errors import UserError

_MOST_STEPS = 1_000
"""Steps of a compiled pattern; ``took ([0-9.]+) s`` has 16. Each costs at most some 20 ns a byte of text."""
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # what is wrong is in the error


def check_pattern(pattern: str, named: str, raised: type[UserError] = UserError) -> None:
    """Refuse what is no pattern with one group; ``named`` is what the setting is called in the message.

    Raises:
        UserError: ``raised``: with what is wrong and what is allowed.
    """
    said = f"{named}={pattern!r}"
    hint = "the syntax is RE2's: there are no back-references and no look-around"
    try:
        compiled = re2.compile(pattern, _OPTIONS)
    except UnicodeEncodeError as exc:
        raise raised(f"{said}: it is no UTF-8", hint) from exc
    except re2.error as exc:
        raise raised(f"{said}: {exc.args[0].decode(errors='replace')}", hint) from exc
    if compiled.programsize > _MOST_STEPS:
        raise raised(f"{said} is too large: {compiled.programsize} steps", f"at most {_MOST_STEPS}")
    if compiled.groups != 1:
        raise raised(f"{said} has {compiled.groups} groups", "needed: exactly one, around the number")


def found(pattern: str, text: str) -> Iterator[str]:
    """Text of the group of a checked pattern in each match, in the order of the text.

    ``$`` is the end of the text for RE2, so that the text without its last line end is tried, too.
    """
    compiled = re2.compile(pattern, _OPTIONS)
    matches = compiled.finditer(text) if compiled.search(text) else compiled.finditer(text.removesuffix("\n"))
    for match in matches:
        yield match[1] or ""
