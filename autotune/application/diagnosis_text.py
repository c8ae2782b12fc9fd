"""Put a diagnosis of a run's time in MPI into words: a sentence for the user, and its evidence in a table.

A *loss* is the time in calls of one kind, or the waiting for late ranks in such calls. The *floor* is the
best times that were measured for the calls on this machine.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from autotune.application.diagnosis import COLLECTIVE, Advice, Diagnosis, Late, Loss
from autotune.application.floor import Floor
from autotune.application.reach import BOTHER
from autotune.views.text import duration_text, size_text

_NAMED = 5  # Largest number of losses, or of fastest settings, that a text names.
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
"""Maps each pattern of late ranks to its usual cause outside of MPI."""
_MAINLY = 0.6
"""If at least this share of the waiting is caused outside of MPI, the text says that MPI is not the cause."""
_OR_SETTINGS = "settings that were not in effect when this was measured"


def sentence(diagnosis: Diagnosis, calls: str = "calls.json") -> str:
    """Return in words where the job spends time in MPI, the causes, and whether tuning can help.

    ``calls`` is the name of the recording's file, for the commands in the text.
    """
    total = diagnosis.mpi_s[0] / diagnosis.run_s
    over = f", over {diagnosis.threads} threads" if diagnosis.threads > 1 else ""
    largest = [loss for loss in diagnosis.losses if diagnosis.share(loss) >= BOTHER][:_NAMED]
    parts = [f"{share_text(diagnosis.share(loss))} {_loss_text(loss)}" for loss in largest]
    remainder = total - math.fsum(map(diagnosis.share, largest))
    if parts and remainder >= BOTHER / 10:
        parts.append(f"{share_text(remainder)} in the rest")
    scope = "MPI" if diagnosis.all_of_mpi else "collectives (of other calls of MPI nothing was recorded)"
    listed = f": {', '.join(parts)}" if parts else ""
    text = f"Your job spends {share_text(total)}{_unsure(diagnosis)} of its time in {scope}{over}{listed}."
    if diagnosis.unseen:
        text += f" It also communicates by {' and '.join(diagnosis.unseen)}, which this does not see."
    return f"{text} {_verdict_text(diagnosis, calls)}"


def _verdict_text(diagnosis: Diagnosis, calls: str) -> str:
    """Return in words how much of the run tuning can save, and the next command to run."""
    bound = f"Tuning can win at most {share_text(diagnosis.most)} of the run"
    if diagnosis.verdict is Advice.LEAVE:
        return f"{bound}: do not bother."
    if diagnosis.win is None:
        return f"{bound}; how much of that, autotune diagnose {calls} measures in minutes."
    how = f"autotune conf=application calls={calls}"
    if diagnosis.verdict is Advice.TUNE:
        return f"Tuning can win {_ends_text(diagnosis.win)} of the run: {how}"
    open_share = diagnosis.most - diagnosis.win[2] - diagnosis.unexplained
    unknown = f", {share_text(open_share)} of it not measured" if open_share > 1e-3 else ""
    if diagnosis.unexplained > 1e-3:
        unknown += f", {share_text(diagnosis.unexplained)} of it in what no measurement explains"
    return f"{bound}{unknown}, {_ends_text(diagnosis.win)} by the measurements so far: run {how}"


def details(diagnosis: Diagnosis, floor: Floor | None) -> str:
    """Return a table with a line for each loss, followed by notes and, given a floor, a line on the floor."""
    rows, notes = loss_rows(diagnosis)
    lines = [f"{'':4}{'of the run':>10}  {'s':>8}  {'× best':>7}  {'to win':>22}"]
    layout = "    {share:>10}  {seconds:>8}  {times:>7}  {win:>22}  {what}"
    lines += [*(layout.format(**row) for row in rows), *notes, *([floor_text(floor)] if floor else [])]
    return "\n".join(lines) + "\n"


def loss_rows(diagnosis: Diagnosis) -> tuple[list[dict[str, str]], list[str]]:
    """Return a row of texts for each loss, and notes on losses without a known cause.

    A row has the keys ``what`` (the calls), ``share`` (of the run), ``seconds``, ``times`` (the ratio to the
    best measured time), and ``win`` (the share of the run that tuning can save).
    """
    rows = []
    for loss in diagnosis.losses:
        if diagnosis.share(loss) < BOTHER / 100:
            continue
        unknown = loss.waiting and loss.unexplained_s >= BOTHER / 100 * diagnosis.run_s
        win = "not measured" if loss.touched else "not known" if unknown else "none by tuning"
        if loss.win_s:
            win = _ends_text(end / diagnosis.run_s for end in loss.win_s)
        times = f"{loss.times:.3g}" if loss.times is not None else ""
        share, seconds = share_text(diagnosis.share(loss)), f"{loss.seconds:.3g}"
        row = {"what": _loss_text(loss, False), "share": share, "seconds": seconds, "times": times}
        rows.append({**row, "win": win})
    notes = [
        unlike_text(loss.name, loss.times, loss.family, loss.derived)
        for loss in diagnosis.losses
        if loss.times is not None and (loss.unlike or loss.unexplained_s >= BOTHER * diagnosis.run_s)
    ]
    return rows, notes


def floor_text(floor: Floor) -> str:
    """Return in words how a floor was measured, and the fastest settings."""
    best = sorted({words for words in floor.best if words})
    left_out = f", for {floor.left_out} more no time was left" if floor.left_out else ""
    fastest = "; ".join(best[:_NAMED]) or "the default"
    return (
        f"best of the default, what it sweeps and {len(floor.settings)} settings{left_out}: "
        f"{floor.launches} launches in {duration_text(floor.seconds)}; fastest somewhere: {fastest}"
    )


def document(diagnosis: Diagnosis, floor: Floor | None, calls: str) -> dict[str, Any]:
    """Return the diagnosis as JSON values for other programs; ``calls`` names the recording's file."""
    return {
        "format": "autotune diagnosis 1",
        "sentence": sentence(diagnosis, calls),
        **asdict(diagnosis),
        "floor": asdict(floor) if floor else None,
    }


def unlike_text(name: str, times: float, family: str = COLLECTIVE, derived: float = 0.0) -> str:
    """Return in words why the saving is unknown for calls that took ``times`` times the measured time.

    ``derived`` is the share of the calls whose datatype the program has defined.
    """
    why = "waiting for partners that come later, overlap"
    if family == COLLECTIVE:
        why = "ranks that lose their cores, other load, waiting that was not seen"
    if derived > 0:
        why = f"datatypes of the program's own (in {share_text(derived)} of the calls), {why}"
    return (
        f"{name} takes {_times_text(times)} times what this machine does: {why}, or {_OR_SETTINGS}; "
        "which of these is not known, and nothing is promised of it"
    )


def _times_text(times: float) -> str:
    return f"{times:.0f}" if times >= 100 else f"{times:.2g}"


def share_text(share: float) -> str:
    """Return a share of a run in per cent: ``58 %``, ``0.2 %``."""
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 9.95 else f"{percent:.1f} %" if percent >= 0.05 else "0.0 %"


def _ends_text(ends: Iterable[float]) -> str:
    value, low, high = ends
    return f"{share_text(value)} ({100 * low:.1f} … {100 * high:.1f})"


def _unsure(diagnosis: Diagnosis) -> str:
    """Return the interval of the share of time in MPI as text; empty where the interval is narrow."""
    value, low, high = (end / diagnosis.run_s for end in diagnosis.mpi_s)
    if max(high - value, value - low) < BOTHER:
        return ""
    return f" (not known to better than {100 * low:.0f} … {100 * high:.0f} %)"


def _loss_text(loss: Loss, with_times: bool = True) -> str:
    name = loss.name.capitalize() if loss.family != COLLECTIVE else loss.name
    calls = f"{name} of {size_text(round(loss.message_bytes))}" if loss.message_bytes is not None else name
    if loss.waiting:
        return f"waiting in {loss.name}{_late_text(loss.late)}"
    if loss.family == COLLECTIVE:
        known = f", {_times_text(loss.times)} times what this machine does at its best" if loss.times else ""
        return f"in {calls}{known if with_times else ''}"
    within = f"{loss.within.capitalize()}, " if loss.within else ""
    return f"{_FAMILIES[loss.family]} ({within}{calls})"


def _late_text(late: Late | None) -> str:
    if late is None or late.outside is None:
        source = "whether the program or MPI makes them so is not known"
    elif late.outside < _MAINLY:
        source = f"{share_text(late.outside)} of it is known to come from outside of MPI"
    else:
        source = "not MPI"
    if late is None or late.pattern not in _WHY or not late.ranks:
        return f" for late ranks ({source})"
    ranks = [str(late_rank.rank) for late_rank in late.ranks]
    who = f"rank {ranks[0]} is" if len(ranks) == 1 else f"ranks {', '.join(ranks[:-1])} and {ranks[-1]} are"
    if late.pattern == "wandering":
        who = "now one rank and now another is"
    when = f" every {late.period_s:.2g} s" if late.period_s and late.pattern == "periodic" else ""
    why = f"{_WHY[late.pattern]}, not MPI" if source == "not MPI" else source
    return f" because {who} late{when} ({why})"
