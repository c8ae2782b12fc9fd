"""Each value of each parameter of the shipped spaces on the real stack: rendered, accepted, read back.

Several parameters share a launch. Spaces of networks that are not here are rendered over many points in
``tests/contract/test_stacks.py``, their variables looked up in ``tests/unit/stacks/knobs/test_recorded.py``.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from autotune.campaign.observing import measurement_of
from autotune.history.trial import Phase, Subject, Trial
from autotune.probe.protocol import ProbeResult
from autotune.resources import space_text
from autotune.scenario import defaults, scenario_of
from autotune.space import Point
from autotune.space.loader import load_space
from autotune.stacks.knobs import listings
from hydra_plugins.autotune.mpirun import MpirunLauncher
from tests.covering import covering
from tests.integration.mpirun import python_of
from tests.integration.test_stacks import BY_LIBFABRIC, FOUND, SPACES

OVER = {
    "openmpi5": ({}, {"pml": "ucx"}),
    "openmpi4": ({}, {"pml": "ucx"}),
    "mpich": ({}, BY_LIBFABRIC["mpich"]),
    "intelmpi": ({}, BY_LIBFABRIC["intelmpi"]),
}
"""What a scenario fixes, so that all of a space is in effect one time or the other."""

MARKS = {"openmpi5": [pytest.mark.mpi, pytest.mark.slow]} | {n: [mark] for n, (_, mark) in FOUND.items()}
CASES = [
    pytest.param(name, number, marks=MARKS[name], id=f"{name}-{number}")
    for name, fixed in OVER.items()
    for number in range(len(fixed))
    if fixed[number] != {"pml": "ucx"}  # a parameter of the space itself
]


def bench_of(name: str, fixed: Mapping[str, str]):
    """The site of a stack with all of its space's collectives, in launches of a moment."""
    space = SPACES.get(name, "openmpi_ucx_local")
    declared = load_space(space_text(space), space)
    scenario = scenario_of(
        {
            **defaults(),
            "collective": sorted(declared["algorithm"].collectives),
            "sizes": [64],
            "space": space,
            "campaign": {"dir": "unused"},
            "cluster": {"ranks": 2},
            "mpi": {"stack": name, "env": dict(fixed)},
            "probe": {"budget_s": 60.0, "precision": 0.9, "min_samples": 2, "max_samples": 2},
        },
        "spaces",
    )
    return MpirunLauncher().connect(scenario), scenario


def declared_variables(site) -> set[str]:
    """Every variable that the libraries of a stack list."""
    return {c.knob.variable for one in listings(site.stack.installation) for c in one.knobs}


@pytest.mark.parametrize(("name", "number"), CASES)
def test_each_value_is_rendered_accepted_and_read_back(name, number, tmp_path, monkeypatch):
    if name in FOUND:
        monkeypatch.setenv("AUTOTUNE_STACKS", str(Path(python_of(FOUND[name][0])).parents[1]))
    site, scenario = bench_of(name, OVER[name][number])
    known = declared_variables(site)
    observer = site.observer(measurement_of(scenario, 2), site.space, tmp_path)
    points = covering(site.space)
    for trial_number, point in enumerate(points, start=1):
        # The first launches every algorithm; those of Intel MPI are launches of their own.
        subject = Subject.SWEEP if trial_number == 1 else Subject.DEPLOYED
        trial = Trial(trial_number, Phase.SEARCH, point, subject)
        rendering = site.stack.render(site.space, trial, scenario.collective)
        # A library ignores a variable that it does not know; control variables are read back.
        unread = {v for v in rendering.env if v.removeprefix("OMPI_MCA_") not in rendering.expect.cvars}
        assert unread - known <= {*site.stack.fixed, "FI_PROVIDER"}, point
        seen = observer.observe(trial)
        assert seen.ok, (point, seen.reason)
        # The samples are too few for a time that could be believed: that they were taken is what counts.
        cells = ProbeResult.read(tmp_path / "launches" / f"{trial_number:04d}").cells
        constant = {variable.split("_")[2] for variable in getattr(site.stack, "read_only", ())}
        failed = [
            (cell.collective, cell.values, cell.reason)
            for cell in cells
            if cell.status != "ok" and not (cell.values and cell.collective in constant)
        ]
        assert not failed, point
        for collective, choices in rendering.choices.items():
            asked = {Point.of(choice.values) for choice in choices}
            assert {Point.of(cell.values) for cell in cells if cell.collective == collective} == asked
