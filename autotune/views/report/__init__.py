"""The report on a campaign as one HTML page (step 12 of the data flow). Only this package uses jinja2."""

from autotune.views.report.inputs import ReportInput
from autotune.views.report.page import figures, page
from autotune.views.report.paper import drawings

__all__ = ["ReportInput", "drawings", "figures", "page"]
