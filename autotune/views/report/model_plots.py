"""The report's figures of the model of an objective, as plotly's JSON; see ``recommend.importance``."""

from autotune.history.objectives import Objective
from autotune.recommend.importance import Importance, Learnt
from autotune.views.report import axes
from autotune.views.report.axes import BLUE, GREY
from autotune.views.text import figure_text, ratio_text

_MOST = 20  # Largest number of parameters that are shown.


def importance(objective: Objective, model: Learnt) -> str:
    """Return the total effects of the parameters, the largest on top."""
    rows: tuple[Importance, ...] = model.importances[:_MOST][::-1]
    figure = axes.empty(110 + 26 * len(rows))
    figure.add_bar(
        x=[axes.rounded(100 * row.share) for row in rows],
        y=[row.parameter for row in rows],
        orientation="h",
        showlegend=False,
        marker={"color": BLUE},
        text=[
            f"{100 * row.share:.1f} % of the variation; drawn anew it changes {objective.name} by "
            f"{ratio_text(row.ratio)} (root mean square)"
            for row in rows
        ],
        textposition="none",
        hovertemplate="%{y}<br>%{text}<extra></extra>",
    )
    figure.update_xaxes(title_text=f"total effect on {objective.name} [%]", rangemode="tozero")
    figure.update_yaxes(type="category")
    return axes.as_json(figure, f"importance-{objective.name}")


def predicted(objective: Objective, index: int, model: Learnt) -> str:
    """Return the measured score of each setting against the model's prediction from all other settings."""
    figure = axes.empty(380)
    measured = [setting.candidate.scores[index].value for setting in model.left_out]
    predictions = [setting.predicted for setting in model.left_out]
    ends = [min(measured + predictions), max(measured + predictions)]
    figure.add_scatter(x=ends, y=ends, showlegend=False, **axes.line(color=GREY, width=1, dash="dash"))
    figure.add_scatter(
        x=[axes.rounded(value) for value in predictions],
        y=[axes.rounded(value) for value in measured],
        error_x=axes.bars(
            [axes.rounded(setting.high - setting.predicted) for setting in model.left_out],
            GREY,
            [axes.rounded(setting.predicted - setting.low) for setting in model.left_out],
        ),
        showlegend=False,
        **axes.dots(color=BLUE, size=7, opacity=0.7),
        **axes.hover(
            f"predicted {figure_text(setting.predicted, unit=objective.unit)} "
            f"({figure_text(setting.low)} … {figure_text(setting.high)}), measured "
            f"{figure_text(value, setting.candidate.scores[index].sem, objective.unit)}"
            for setting, value in zip(model.left_out, measured, strict=True)
        ),
    )
    sides = ((figure.update_xaxes, "predicted", predictions), (figure.update_yaxes, "measured", measured))
    for update, word, values in sides:
        axis = axes.axis(objective, values)
        update(**{**axis, "title_text": f"{word} {objective.name} [{objective.unit}]"})
    return axes.as_json(figure, f"predicted-{objective.name}")
