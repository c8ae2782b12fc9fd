"""Start the program, as ``python -m autotune`` or as the command ``autotune``."""

import sys


def main() -> None:
    """Run the command line of this process, and exit with a code of ``errors.ExitCode``."""
    from autotune.cli import main as run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
