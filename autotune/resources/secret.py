"""Recognises names whose values are secret, and removes such values from command lines and environments.

Recordings, journals and tables are passed on to others, so none of them may contain a secret value.
"""

import re
from collections.abc import Mapping, Sequence

HIDDEN = "HIDDEN"
"""The word that is shown in place of a secret value."""

_WORDS = {
    *("access", "apikey", "auth", "authorization", "bearer", "cookie", "credential", "credentials", "creds"),
    *("key", "passphrase", "passwd", "password", "pwd", "secret", "secrets", "token", "tokens"),
}
"""Words in a name that show that its value is secret.

Source: the keywords of the generic rule of gitleaks 8 and of the keyword plugin of detect-secrets 1.5."""
_PARTS = re.compile(r"[a-z]+|[A-Z](?:[a-z]+|[A-Z]*(?![a-z]))")
_ASSIGNED = re.compile(r"(?P<name>[\w.-]*[A-Za-z_][\w.-]*)(?P<between>\s*[=:]\s*)(?P<value>.+)", re.DOTALL)


def is_secret(name: str) -> bool:
    """Whether the value of a variable, an option or a parameter with this name is secret."""
    parts = {part.lower() for part in _PARTS.findall(name)}
    return bool(parts & _WORDS)


def without_secrets(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command line with ``HIDDEN`` in place of secret values.

    A secret value follows ``NAME=`` in a word (also in a list with commas), or is the word after an option
    or a parameter whose name shows that it is secret (``--password x``, ``--mca my_password x``).
    """
    shown_words: list[str] = []
    for number, word in enumerate(words):
        previous = words[number - 1] if number else ""
        bare = re.fullmatch(r"--?[\w.-]+", previous) or (number > 1 and _names_parameter(words[number - 2]))
        if bare and is_secret(previous) and not word.startswith("-"):
            shown_words.append(HIDDEN)
        else:
            shown_words.append(",".join(map(_assignment, word.split(","))))
    return tuple(shown_words)


def environment_without_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables with ``HIDDEN`` in place of the values of secret ones (``is_secret``)."""
    return {name: HIDDEN if is_secret(name) else value for name, value in variables.items()}


def with_secrets(variables: Mapping[str, str], source: Mapping[str, str]) -> dict[str, str]:
    """Return variables with hidden values replaced by those in ``source``.

    Hidden variables that are not in ``source`` are left out.
    """
    hidden = {name for name, value in variables.items() if value == HIDDEN}
    visible = {name: value for name, value in variables.items() if name not in hidden}
    return visible | {name: source[name] for name in hidden & source.keys()}


def _names_parameter(option: str) -> bool:
    """Whether an option is followed by two words: the name of a parameter, and its value."""
    return option.lstrip("-") in ("mca", "gmca", "omca", "pmixmca", "prtemca", "genv", "env")


def _assignment(part: str) -> str:
    match = _ASSIGNED.fullmatch(part.lstrip("-"))
    if not match or not is_secret(match["name"]):
        return part
    return f"{part[: len(part) - len(match['value'])]}{HIDDEN}"
