"""``plan conf=…``: print the launches that a campaign would make and their cost, before anything runs."""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

from autotune.campaign.bench import Bench, Compose
from autotune.campaign.costs import Share, shares
from autotune.campaign.directory import find_campaign
from autotune.campaign.discovery import Discovery
from autotune.campaign.needed import expected_spread
from autotune.campaign.noise import resolution
from autotune.campaign.observing import measurement_of
from autotune.campaign.strategy import Strategy
from autotune.commands.companions import sites
from autotune.commands.hydra_bridge import run_task
from autotune.commands.terminal import console
from autotune.commands.tune import strategy_of
from autotune.errors import ExitCode
from autotune.history.trial import History
from autotune.scenario import Scenario
from autotune.stacks.cleared import left_out
from autotune.views.documents import answer_text, fields_of
from autotune.views.tables import design_table, machine_table
from autotune.views.text import cost_text


def plan_all(words: Sequence[str], as_json: bool = False) -> int:
    """Print the plan of the campaign that the words compose, and return the exit code.

    For a multirun the plan of each campaign is printed, followed by the node-hours of all campaigns together.
    If ``as_json``, all of them are one JSON document.

    Raises:
        AutotuneError: for the same reasons as in ``run_task``.
    """
    planned: list[tuple[float, float]] = []
    documents: list[dict[str, Any]] = []
    site_documents: list[dict[str, Any]] = []

    def plan_site(document: Mapping[str, Any], compose: Compose) -> int:
        return sites().plan(document, compose, planned, site_documents if as_json else None)

    task = partial(plan, planned=planned, documents=documents if as_json else None)
    code = run_task(task, words, site_task=plan_site, dry_run=True, verb="plan")
    together = [sum(ends) for ends in zip(*planned, strict=True)]
    if documents or site_documents:
        answer = {"campaigns": documents, "sites": site_documents, "node_hours": together}
        sys.stdout.write(answer_text("plan", answer))
    elif len(planned) > 1:
        least_h, most_h = together
        sys.stdout.write(f"{len(planned)} campaigns together: {least_h:.2f} … {most_h:.2f} node-hours\n")
    return code


def plan(
    scenario: Scenario,
    bench: Bench,
    planned: list[tuple[float, float]] | None = None,
    documents: list[dict[str, Any]] | None = None,
) -> int:
    """Print what can be tuned, the launches and node-hours of each phase, and the design of the screening.

    Node-hours are shown as a range. The lower end counts only the time in which launches measure, which the
    scenario sets; the upper end is reached if every launch runs into its time limit. The range for all phases
    together is appended to ``planned``. If ``documents`` is given, the plan is appended to it as JSON values,
    and nothing is printed.
    """
    request = bench.asked(scenario)
    strategy, measurement = strategy_of(request, bench), measurement_of(request, bench.placement.ranks)
    phases, nodes = shares(strategy), bench.placement.nodes
    table = Table("phase", "launches", "node-hours", box=None, title_justify="left", pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    total = Share("together", sum(share.launches for share in phases), sum(share.most for share in phases))
    for share in (*phases, total):
        table.add_row(*share.row(nodes, request.probe.budget_s, measurement.timeout_s))
    if planned is not None:
        planned.append(total.hours(nodes, request.probe.budget_s, measurement.timeout_s))
    if documents is not None:
        documents.append(_document(request, bench, phases, measurement.timeout_s))
        return ExitCode.WELL
    screen = console(soft_wrap=False, highlight=False)
    if bench.chosen:
        screen.print(bench.chosen)
    screen.print(machine_table(bench.findings, bench.space.dropped))
    if without := left_out(bench.space, bench.description, request.collective):
        screen.print(f"\n{without}")
    screen.print(
        f"\n{', '.join(request.collective)}: {len(request.sizes)} sizes, {bench.placement.ranks} ranks on "
        f"{nodes} node(s); {len(bench.space.job)} parameters of a launch, {len(bench.space.call)} swept "
        "inside\n"
    )
    screen.print(table)
    screen.print(
        f"\n{cost_text(phases, scenario.budget.total_seconds)}\n"
        f"a launch measures for {request.probe.budget_s:g} s and is ended after {measurement.timeout_s:g} s\n"
        f"{_resolved(strategy, request.directory)}"
        f"campaign: {request.directory}\n"
    )
    if strategy.discovery is not None:
        screen.print(_discovering(strategy.discovery))
    elif (design := strategy.plan().design) is not None:
        screen.print(design_table(design))
    return ExitCode.WELL


def _document(request: Scenario, bench: Bench, phases: Sequence[Share], timeout_s: float) -> dict[str, Any]:
    measure_s = request.probe.budget_s
    return {
        "directory": str(request.directory),
        "collectives": list(request.collective),
        "sizes": list(request.sizes),
        "nodes": bench.placement.nodes,
        "ranks": bench.placement.ranks,
        "parameters": [parameter.name for parameter in bench.space.job],
        "swept": [parameter.name for parameter in bench.space.call],
        "phases": [
            {
                **fields_of(share, "phase", "launches", "most"),
                "node_hours": list(share.hours(bench.placement.nodes, measure_s, timeout_s)),
            }
            for share in phases
        ],
        "launch_s": measure_s,
        "timeout_s": timeout_s,
    }


def _resolved(strategy: Strategy, directory: Path) -> str:
    """Return a line on the smallest gain that the verification can resolve; empty without a verification.

    Launches are assumed to differ as much as those of the campaign that the directory holds already, or else
    as much as those on recorded machines.
    """
    if strategy.plan().verifier is None:
        return ""
    earlier = find_campaign(directory)
    remark = resolution(strategy.campaign, *expected_spread(earlier.history if earlier else History()))
    return f"{remark.text}\n" if remark else ""


def _discovering(discovery: Discovery) -> str:
    design = discovery.design
    arms = "; ".join(
        f"{arm.name or 'default'}: {len(dict(arm.changes))} knobs at {len(arm.changes)} levels"
        for arm in design.arms
    )
    limit = f", at most {discovery.options.seconds:g} s" if discovery.options.seconds else ""
    return (
        f"discovery: {design.screening} launches with few knobs changed, the rest to confirm{limit}; each "
        f"measures for {discovery.options.probe_s:g} s\n  {arms}"
    )
