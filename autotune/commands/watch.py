"""``status DIR --watch``: show the status of a running campaign or site in another terminal."""

import time
from pathlib import Path

from rich.live import Live
from rich.text import Text

from autotune.commands.companions import sites
from autotune.commands.kept_status import is_site
from autotune.commands.status import progress
from autotune.commands.terminal import console

_EVERY_S = 1.0  # Seconds between two updates, at least.
_SHARE = 10  # Updating takes at most 1/_SHARE of the time, because it disturbs the launches being measured.


def watch(directory: Path) -> None:
    """Show how far a campaign or a site has come, until it ends or the user presses Ctrl-C.

    Raises:
        AutotuneError: for the same reasons as in ``status``.
    """
    with Live(console=console(), auto_refresh=False) as live:
        try:
            while True:
                began_s = time.monotonic()
                if is_site(directory):
                    text, going_on = sites().progress(directory)
                else:
                    current = progress(directory)
                    text, going_on = current.text, current.going_on
                live.update(Text(text.rstrip()), refresh=True)
                if not going_on:
                    return
                time.sleep(max(_EVERY_S, _SHARE * (time.monotonic() - began_s)))
        except KeyboardInterrupt:
            return
