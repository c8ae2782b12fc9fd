"""A campaign as one self-contained HTML page (step 12 of the flow). This package owns plotly and jinja2."""

from autotune.views.report.inputs import ReportInput
from autotune.views.report.page import figures, page
from autotune.views.report.paper import drawings

__all__ = ["ReportInput", "drawings", "figures", "page"]
