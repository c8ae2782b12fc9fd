"""``python -m autotune``: a verb goes to ``cli``, anything else (``conf=…``) to ``app``."""

import sys

SCENARIO_VERBS = ("measure", "plan")
"""Verbs that take a scenario: everything after them is for Hydra, apart from their own options."""


def main() -> None:
    """Run the program and exit with a documented code."""
    words = sys.argv[1:]
    first = next((word for word in words if not word.startswith("-")), "")
    if first in SCENARIO_VERBS or "=" in first or _is_hydra(words):
        from autotune.commands.hydra_bridge import run

        sys.exit(run(words))
    from autotune.cli import main as verbs

    sys.exit(verbs(words))


def _is_hydra(words: list[str]) -> bool:
    """Whether the options are Hydra's own (``--multirun``, ``--cfg`` …) rather than ours."""
    ours = {"--help", "-h", "--version"}
    return any(word.startswith("-") for word in words) and not ours & set(words) and not _verb(words)


def _verb(words: list[str]) -> bool:
    return bool(words) and not words[0].startswith("-")


if __name__ == "__main__":
    main()
