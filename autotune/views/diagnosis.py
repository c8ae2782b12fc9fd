"""A diagnosis in words: the sentence that a program's owner needs, and its evidence (step 12)."""

import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from autotune.recommend.diagnosis import COLLECTIVE, Advice, Diagnosis, Late, Loss
from autotune.recommend.floor import Floor
from autotune.recommend.reach import BOTHER
from autotune.views.text import duration_text, size_text

_NAMED = 5  # Losses that the sentence names.
_FAMILIES = {
    "point-to-point": "point-to-point",
    "one-sided": "one-sided",
    "files": "in MPI-IO",
    "completion": "in waits and tests of nothing in particular",
    "setup": "setting up communicators and the like",
}
_WHY = {
    "same": "imbalance",
    "wandering": "imbalance that moves, or noise",
    "periodic": "a disturbance at a period",
}
"""Pattern of late ranks → what makes such outside of MPI."""
_MAINLY = 0.6  # Share of the waiting, as where ``importers.lateness`` calls a rank late.
_OR_SETTINGS = "settings that were not in effect when this was measured"


def sentence(found: Diagnosis, calls: str = "calls.json") -> str:
    """Losses of the job in MPI, their causes, and whether tuning can help."""
    total = found.mpi_s[0] / found.run_s
    over = f", over {found.threads} threads" if found.threads > 1 else ""
    named = [loss for loss in found.losses if found.share(loss) >= BOTHER][:_NAMED]
    parts = [f"{share_text(found.share(loss))} {_loss_text(loss)}" for loss in named]
    rest = total - math.fsum(map(found.share, named))
    if parts and rest >= BOTHER / 10:
        parts.append(f"{share_text(rest)} in the rest")
    where = "MPI" if found.all_of_mpi else "collectives (of other calls of MPI nothing was recorded)"
    listed = f": {', '.join(parts)}" if parts else ""
    said = [f"Your job spends {share_text(total)}{_unsure(found)} of its time in {where}{over}{listed}."]
    if found.unseen:
        said.append(f"It also communicates by {' and '.join(found.unseen)}, which this does not see.")
    return " ".join([*said, verdict_text(found, calls)])


def verdict_text(found: Diagnosis, calls: str = "calls.json") -> str:
    """The gain that tuning can bring."""
    most = f"Tuning can win at most {share_text(found.most)} of the run"
    if found.verdict is Advice.LEAVE:
        return f"{most}: do not bother."
    if found.win is None:
        return f"{most}; how much of that, autotune diagnose {calls} measures in minutes."
    how = f"autotune conf=application calls={calls}"
    if found.verdict is Advice.TUNE:
        return f"Tuning can win {_ends_text(found.win)} of the run: {how}"
    open_share = found.most - found.win[2] - found.unexplained
    unknown = f", {share_text(open_share)} of it not measured" if open_share > 1e-3 else ""
    if found.unexplained > 1e-3:
        unknown += f", {share_text(found.unexplained)} of it in what no measurement explains"
    return f"{most}{unknown}, {_ends_text(found.win)} by the measurements so far: run {how}"


def details(found: Diagnosis, floor: Floor | None) -> str:
    """A line for each loss, and what the floor was measured with."""
    rows, notes = loss_rows(found)
    lines = [f"{'':4}{'of the run':>10}  {'s':>8}  {'× best':>7}  {'to win':>22}"]
    lines += [
        f"{'':4}{row['share']:>10}  {row['seconds']:>8}  {row['times']:>7}  {row['win']:>22}  {row['what']}"
        for row in rows
    ]
    lines += notes
    if floor is not None:
        lines.append(floor_text(floor))
    return "\n".join(lines) + "\n"


def loss_rows(found: Diagnosis) -> tuple[list[dict[str, str]], list[str]]:
    """The losses in words, and notes on those of which nothing is promised."""
    rows = []
    for loss in found.losses:
        if found.share(loss) < BOTHER / 100:
            continue
        unknown = loss.waiting and loss.unexplained_s >= BOTHER / 100 * found.run_s
        win = "not measured" if loss.touched else "not known" if unknown else "none by tuning"
        if loss.win_s:
            win = _ends_text(end / found.run_s for end in loss.win_s)
        rows.append({
            "what": _loss_text(loss, False),
            "share": share_text(found.share(loss)),
            "seconds": f"{loss.seconds:.3g}",
            "times": f"{loss.times:.3g}" if loss.times is not None else "",
            "win": win,
        })  # fmt: skip
    notes = [
        unlike_text(loss.name, loss.times, loss.family, loss.derived)
        for loss in found.losses
        if loss.times is not None and (loss.unlike or loss.unexplained_s >= BOTHER * found.run_s)
    ]
    return rows, notes


def floor_text(floor: Floor) -> str:
    """The settings tried, and the best ones by call."""
    best = sorted({words for words in floor.best if words})
    left = f", for {floor.left_out} more no time was left" if floor.left_out else ""
    fastest = "; ".join(best[:_NAMED]) or "the default"
    return (
        f"best of the default, what it sweeps and {len(floor.settings)} settings{left}: "
        f"{floor.launches} launches in {duration_text(floor.seconds)}; fastest somewhere: {fastest}"
    )


def document(found: Diagnosis, floor: Floor | None, calls: str) -> dict[str, Any]:
    """For other programs."""
    return {
        "format": "autotune diagnosis 1",
        "sentence": sentence(found, calls),
        **asdict(found),
        "floor": asdict(floor) if floor else None,
    }


def unlike_text(name: str, times: float, family: str = COLLECTIVE, derived: float = 0.0) -> str:
    """Why nothing is promised of calls that take longer than on their own; ``derived``: see ``Loss``."""
    why = "ranks that lose their cores, other load, waiting that was not seen"
    if family != COLLECTIVE:
        why = "waiting for partners that come later, overlap"
    if derived > 0:
        why = f"datatypes of the program's own (in {share_text(derived)} of the calls), {why}"
    return (
        f"{name} takes {_times_text(times)} times what this machine does: {why}, or {_OR_SETTINGS}; "
        "which of these is not known, and nothing is promised of it"
    )


def _times_text(times: float) -> str:
    return f"{times:.0f}" if times >= 100 else f"{times:.2g}"


def share_text(share: float) -> str:
    """A share of a run: ``58 %``, ``0.2 %``."""
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 9.95 else f"{percent:.1f} %" if percent >= 0.05 else "0.0 %"


def _ends_text(ends: Iterable[float]) -> str:
    value, low, high = ends
    return f"{share_text(value)} ({100 * low:.1f} … {100 * high:.1f})"


def _unsure(found: Diagnosis) -> str:
    value, low, high = (end / found.run_s for end in found.mpi_s)
    if max(high - value, value - low) < BOTHER:
        return ""
    return f" (not known to better than {100 * low:.0f} … {100 * high:.0f} %)"


def _loss_text(loss: Loss, with_times: bool = True) -> str:
    what = loss.name.capitalize() if loss.family != COLLECTIVE else loss.name
    of = f"{what} of {size_text(round(loss.message_bytes))}" if loss.message_bytes is not None else what
    if loss.waiting:
        return f"waiting in {loss.name}{_late_text(loss.late)}"
    times = ""
    if with_times and loss.times is not None and loss.family == COLLECTIVE:
        times = f", {_times_text(loss.times)} times what this machine does at its best"
    if loss.family == COLLECTIVE:
        return f"in {of}{times}"
    within = f"{loss.within.capitalize()}, " if loss.within else ""
    return f"{_FAMILIES[loss.family]} ({within}{of})"


def _late_text(late: Late | None) -> str:
    if late is None or late.outside is None:
        source = "whether the program or MPI makes them so is not known"
    elif late.outside < _MAINLY:
        source = f"{share_text(late.outside)} of it is known to come from outside of MPI"
    else:
        source = "not MPI"
    if late is None or late.pattern not in _WHY or not late.ranks:
        return f" for late ranks ({source})"
    ranks = [str(one.rank) for one in late.ranks]
    who = f"rank {ranks[0]} is" if len(ranks) == 1 else f"ranks {', '.join(ranks[:-1])} and {ranks[-1]} are"
    if late.pattern == "wandering":
        who = "now one rank and now another is"
    when = f" every {late.period_s:.2g} s" if late.period_s and late.pattern == "periodic" else ""
    why = f"{_WHY[late.pattern]}, not MPI" if source == "not MPI" else source
    return f" because {who} late{when} ({why})"
