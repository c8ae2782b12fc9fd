"""The report's figures of what the judge of recommendations has learnt, as plotly's JSON."""

from autotune.history.objectives import Objective
from autotune.recommend.importance import Importance, Learnt
from autotune.views.report import axes
from autotune.views.report.axes import BLUE, GREY
from autotune.views.text import figure_text, ratio_text

_MOST = 20  # Parameters that are shown.


def importance(objective: Objective, found: Learnt) -> str:
    """Total effects of the parameters, the largest on top."""
    shown: tuple[Importance, ...] = found.importances[:_MOST][::-1]
    figure = axes.empty(110 + 26 * len(shown))
    figure.add_bar(
        x=[axes.rounded(100 * its.share) for its in shown],
        y=[its.parameter for its in shown],
        orientation="h",
        showlegend=False,
        marker={"color": BLUE},
        text=[
            f"{100 * its.share:.1f} % of the variation; drawn anew it changes {objective.name} by "
            f"{ratio_text(its.ratio)} (root mean square)"
            for its in shown
        ],
        textposition="none",
        hovertemplate="%{y}<br>%{text}<extra></extra>",
    )
    figure.update_xaxes(title_text=f"total effect on {objective.name} [%]", rangemode="tozero")
    figure.update_yaxes(type="category")
    return axes.as_json(figure, f"importance-{objective.name}")


def predicted(objective: Objective, index: int, found: Learnt) -> str:
    """Each setting as measured against what the model says of it from all others."""
    figure = axes.empty(380)
    measured = [one.candidate.scores[index].value for one in found.left_out]
    said = [one.predicted for one in found.left_out]
    ends = [min(measured + said), max(measured + said)]
    figure.add_scatter(x=ends, y=ends, showlegend=False, **axes.line(color=GREY, width=1, dash="dash"))
    figure.add_scatter(
        x=[axes.rounded(value) for value in said],
        y=[axes.rounded(value) for value in measured],
        error_x=axes.bars(
            [axes.rounded(one.high - one.predicted) for one in found.left_out],
            GREY,
            [axes.rounded(one.predicted - one.low) for one in found.left_out],
        ),
        showlegend=False,
        **axes.dots(color=BLUE, size=7, opacity=0.7),
        **axes.told(
            f"predicted {figure_text(one.predicted, unit=objective.unit)} "
            f"({figure_text(one.low)} … {figure_text(one.high)}), measured "
            f"{figure_text(value, one.candidate.scores[index].sem, objective.unit)}"
            for one, value in zip(found.left_out, measured, strict=True)
        ),
    )
    both = ((figure.update_xaxes, "predicted", said), (figure.update_yaxes, "measured", measured))
    for update, word, values in both:
        axis = axes.axis(objective, values)
        update(**{**axis, "title_text": f"{word} {objective.name} [{objective.unit}]"})
    return axes.as_json(figure, f"predicted-{objective.name}")
