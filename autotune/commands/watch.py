"""``watch DIR``: how far a campaign or a site is, while it goes on, in another terminal."""

import time
from pathlib import Path

from rich.live import Live
from rich.text import Text

from autotune.commands.kept_status import is_site
from autotune.commands.site import site_progress
from autotune.commands.status import progress
from autotune.commands.terminal import console

_EVERY_S = 1.0
_SHARE = 10  # Looking takes at most one part in so many of the time: the machine is measuring.


def watch(directory: Path) -> None:
    """Show how far it is until it ends, or until Ctrl-C, which does nothing to the campaign.

    Raises:
        AutotuneError: as ``status``.
    """
    with Live(console=console(), auto_refresh=False) as live:
        try:
            while True:
                began_s = time.monotonic()
                if is_site(directory):
                    text, going_on = site_progress(directory)
                else:
                    now = progress(directory)
                    text, going_on = now.text, now.going_on
                live.update(Text(text.rstrip()), refresh=True)
                if not going_on:
                    return
                time.sleep(max(_EVERY_S, _SHARE * (time.monotonic() - began_s)))
        except KeyboardInterrupt:
            return
