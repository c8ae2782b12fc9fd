"""Names whose values are nobody else's business, and command lines without them (steps 2 and 12).

Recordings, journals and tables are handed around, so none of them holds the value of such a name.
"""

import re
from collections.abc import Mapping, Sequence

HIDDEN = "HIDDEN"
"""The word in place of a value."""

_WORDS = {
    *("access", "apikey", "auth", "authorization", "bearer", "cookie", "credential", "credentials", "creds"),
    *("key", "passphrase", "passwd", "password", "pwd", "secret", "secrets", "token", "tokens"),
}
"""Parts of names, after the keywords of the generic rule of gitleaks 8 and of the keyword plugin of
detect-secrets 1.5."""
_PARTS = re.compile(r"[a-z]+|[A-Z](?:[a-z]+|[A-Z]*(?![a-z]))")
_ASSIGNED = re.compile(r"(?P<name>[\w.-]*[A-Za-z_][\w.-]*)(?P<between>\s*[=:]\s*)(?P<value>.+)", re.DOTALL)


def is_secret(name: str) -> bool:
    """Whether a variable, an option or a parameter of this name holds what others shall not read."""
    parts = {part.lower() for part in _PARTS.findall(name)}
    return bool(parts & _WORDS)


def without_secrets(words: Sequence[str]) -> tuple[str, ...]:
    """Words of a command line with ``HIDDEN`` in place of secret values.

    A value is what follows ``NAME=`` in a word (also in a list with commas), or the word behind an option
    or a parameter whose name says that it is secret (``--password x``, ``--mca my_password x``).
    """
    kept: list[str] = []
    for number, word in enumerate(words):
        before = words[number - 1] if number else ""
        bare = re.fullmatch(r"--?[\w.-]+", before) or (number > 1 and _names_parameter(words[number - 2]))
        if bare and is_secret(before) and not word.startswith("-"):
            kept.append(HIDDEN)
        else:
            kept.append(",".join(map(_assignment, word.split(","))))
    return tuple(kept)


def environment_without_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables with ``HIDDEN`` in place of the values of those with a secret's name."""
    return {name: HIDDEN if is_secret(name) else value for name, value in variables.items()}


def _names_parameter(option: str) -> bool:
    """Whether two words follow an option, a name and its value."""
    return option.lstrip("-") in ("mca", "gmca", "omca", "pmixmca", "prtemca", "genv", "env")


def _assignment(part: str) -> str:
    found = _ASSIGNED.fullmatch(part.lstrip("-"))
    if not found or not is_secret(found["name"]):
        return part
    return f"{part[: len(part) - len(found['value'])]}{HIDDEN}"
