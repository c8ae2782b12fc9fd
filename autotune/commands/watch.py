"""``watch DIR``: how far a campaign is, while it goes on, in another terminal."""

import time
from pathlib import Path

from rich.live import Live
from rich.text import Text

from autotune.commands.status import progress
from autotune.commands.terminal import console

_EVERY_S = 1.0
_SHARE = 10
"""Looking takes at most one part in so many of the time: the machine is measuring."""


def watch(directory: Path) -> None:
    """Show how far a campaign is until it ends, or until Ctrl-C, which does nothing to the campaign.

    Raises:
        AutotuneError: as ``status``.
    """
    with Live(console=console(), auto_refresh=False) as live:
        try:
            while True:
                began_s = time.monotonic()
                now = progress(directory)
                live.update(Text(now.text.rstrip()), refresh=True)
                if not now.going_on:
                    return
                time.sleep(max(_EVERY_S, _SHARE * (time.monotonic() - began_s)))
        except KeyboardInterrupt:
            return
