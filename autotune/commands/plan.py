"""``plan conf=…``: print the launches that a campaign would make and their cost, before anything runs."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.table import Table

from autotune.campaign.bench import Bench
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
from autotune.history.trial import History
from autotune.scenario import Scenario
from autotune.stacks.cleared import left_out
from autotune.views.tables import design_table, machine_table
from autotune.views.text import cost_text


def plan_all(words: Sequence[str]) -> int:
    """Print the plan of the campaign that the words compose, and return the exit code.

    For a multirun the plan of each campaign is printed, followed by the node-hours of all campaigns together.

    Raises:
        AutotuneError: for the same reasons as in ``run_task``.
    """
    planned: list[tuple[float, float]] = []
    code = run_task(
        partial(plan, planned=planned),
        words,
        site_task=lambda document, compose: sites().plan(document, compose, planned),
        dry_run=True,
    )
    if len(planned) > 1:
        least_h, most_h = map(sum, zip(*planned, strict=True))
        sys.stdout.write(f"{len(planned)} campaigns together: {least_h:.2f} … {most_h:.2f} node-hours\n")
    return code


def plan(scenario: Scenario, bench: Bench, planned: list[tuple[float, float]] | None = None) -> int:
    """Print what can be tuned, the launches and node-hours of each phase, and the design of the screening.

    Node-hours are shown as a range. The lower end counts only the time in which launches measure, which the
    scenario sets; the upper end is reached if every launch runs into its time limit. The range for all phases
    together is appended to ``planned``.
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
    return 0


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
