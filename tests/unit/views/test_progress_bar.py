"""A bar is drawn where a console prints, and nowhere else."""

import io
import math
from types import SimpleNamespace

from rich.console import Console

from autotune.views import progress_bar
from autotune.views.progress_bar import NotebookBar, TerminalBar, bar_for, bar_html


class Display:
    """What a notebook's cell shows, in the order of time."""

    def __init__(self):
        self.shown = []
        self.HTML = str

    def display(self, html, display_id):
        assert display_id
        self.shown.append(html)
        return SimpleNamespace(update=self.shown.append)


def test_a_notebook_has_one_output_that_is_replaced():
    display = Display()
    bar = NotebookBar(display)
    bar.best("nothing yet")
    bar.stop()
    assert display.shown == []  # nothing before the first launch
    bar.show("phase 1/2 <search>", 30.0, 90.0)
    bar.best("best 1.20×")
    bar.show("phase 2/2", 60.0, math.inf)
    bar.stop()
    assert display.shown == [
        '<div>phase 1/2 &lt;search&gt; <progress value="0.250"></progress> nothing yet</div>',
        '<div>phase 1/2 &lt;search&gt; <progress value="0.250"></progress> best 1.20×</div>',
        "<div>phase 2/2 <progress></progress> best 1.20×</div>",
        "",
    ]


def test_the_bar_is_that_of_the_place(monkeypatch):
    assert bar_for(Console(file=io.StringIO())) is None
    assert isinstance(bar_for(Console(file=io.StringIO(), force_terminal=True)), TerminalBar)
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    monkeypatch.setattr(progress_bar, "import_module", lambda name: {"IPython.display": Display()}[name])
    assert isinstance(bar_for(Console(file=stream(), force_jupyter=False)), NotebookBar)
    monkeypatch.setenv("FORCE_COLOR", "1")  # ipykernel sets it
    assert isinstance(bar_for(Console(file=stream(), force_jupyter=False)), NotebookBar)


def test_an_unknown_share_has_no_value():
    assert bar_html("a", math.nan, "") == "<div>a <progress></progress> </div>"
