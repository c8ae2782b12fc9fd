"""The report on a campaign as one HTML page (step 12 of the data flow). Only this package uses jinja2."""

from autotune.views.report.page import figures, page
from autotune.views.report.paper import drawings
from autotune.views.report.sections import ReportInput

__all__ = ["ReportInput", "drawings", "figures", "page"]
