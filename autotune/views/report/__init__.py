"""Make the report on a campaign, one HTML page (step 12 of the data flow); only this package uses jinja2."""

from autotune.views.report.page import figures, page
from autotune.views.report.paper import drawings
from autotune.views.report.sections import ReportInput

__all__ = ["ReportInput", "drawings", "figures", "page"]
