"""What two launches under the exported files must show, by a launcher that reads them as Open MPI does."""

import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from autotune.campaign.observing import Launches, Measurement
from autotune.exporters.export_check import PROOF_FILE, check_export, refuted
from autotune.exporters.files import export_files
from autotune.history.trial import Rule, Status
from autotune.probe.protocol import REQUEST, CellSamples, Expectation, ProbeRequest, ProbeResult
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.space import Point, Space
from autotune.stacks.knobs.openmpi import NEVER_SET
from autotune.stacks.ports import LaunchOutcome, Placement, Rendering
from tests.asking import probe_request

RING = Point.of({"algorithm": "ring"})
RULES = (Rule("allreduce", 2, 0, Point()), Rule("allreduce", 2, 1024, RING))
SIZES = (8, 1024, 65536)
ENV = (("OMPI_MCA_pml", "ucx"), ("UCX_TLS", "self,posix"))


class Stack:
    def render(self, space, trial, collectives):
        env = {"OMPI_MCA_btl": "^ofi"}
        expect = Expectation(library="/lib/libmpi.so")
        return Rendering(env, expect=expect)


class Mpi:
    """Has what variables say, and refuses what reaches a row with id 99.

    ``site``: what files of the site's and the user's say besides, for a launch in the environment ``env``.
    """

    def __init__(self, deaf=False, forgets=(), dies_of=(), site=lambda env, launch: {}):
        self.deaf, self.forgets, self.dies_of, self.bench, self.launches = deaf, forgets, dies_of, site, 0

    def run(self, request):
        self.launches += 1
        values = {name.removeprefix("OMPI_MCA_"): value for name, value in request.env.items()}
        assert values.pop("btl") == "^ofi"
        for name in self.forgets:
            values.pop(name, None)
        probe = ProbeRequest.from_json((request.directory / REQUEST).read_text())
        expect = probe.expect
        for name, wanted in {**expect.env, **expect.cvars, **expect.ucx_values}.items():
            if values.get(name) != wanted:
                return LaunchOutcome(Status.NOT_APPLIED, f"{name} is {values.get(name)!r}")
        rules = values.get("coll_tuned_dynamic_rules_filename")
        bound = re.search(r"(?m)^(\d+) 99 ", Path(rules).read_text()) if rules else None
        assert probe.reach
        assert (expect == Expectation()) == (bound is not None)
        if bound and any(size >= int(bound[1]) for size in self.dies_of):
            return LaunchOutcome(Status.CRASHED, "rank 0 was ended by signal 11")
        cells = []
        for size in probe.sizes_bytes:
            refused = bound is not None and size >= int(bound[1]) and not self.deaf
            status = ("invalid", "MPI_ERR_ARG") if refused else ("ok", "")
            samples = np.array([] if refused else [1e-6, 1.1e-6])
            cells.append(CellSamples("allreduce", 2, size, {}, samples, *status))
        held = {**self.bench(request.env, self.launches), **values}
        result = ProbeResult("ok", cells=tuple(cells), parameters=held)
        result.write(request.directory)
        return LaunchOutcome(Status.OK, result=result)


def proof(tmp_path, launcher, rules=RULES, formats=("json", "openmpi_mca", "env_sh"), env=ENV):
    source = Provenance("c", env=env, both_sides=(("OMPI_MCA_btl", "^ofi"),))
    made = Recommendation(Point(), rules, provenance=source)
    tmp_path.mkdir(exist_ok=True)
    export_files(made, ("openmpi_mca", "env_sh"), tmp_path)
    observers = partial(Launches, Stack(), launcher, Placement(2))
    measurement = Measurement(probe_request(("allreduce",), SIZES), 10.0)
    return check_export(formats, made, tmp_path, observers, measurement, Space("s", ()))


@pytest.mark.parametrize("formats", [("json", "openmpi_mca", "env_sh"), ("env_sh",)])
def test_files_that_work_are_proved_and_the_outcome_lies_beside_them(tmp_path, formats):
    found = proof(tmp_path, Mpi(), formats=formats)
    assert (found.variables, found.rows, found.rows_reached, found.strays) == (4, 2, 2, 0)
    assert found.holds
    assert str(found) == (
        "files in effect on fresh launches: every rank sees their 4 parameters, "
        "2 of 2 measured sizes with a rule reach it; this says nothing of speed"
    )
    assert json.loads((tmp_path / PROOF_FILE).read_text())["holds"] is True
    assert not refuted(tmp_path)
    assert "99" not in (tmp_path / "coll_tuned_rules.conf").read_text()


@pytest.mark.parametrize("name", ["nodes=4,ppn=8", "my runs", "it's"])
def test_awkward_names_of_directories_part_nothing(tmp_path, name):
    assert proof(tmp_path / name, Mpi(), formats=("openmpi_mca",)).holds


def test_where_nothing_is_set_nothing_is_launched(tmp_path):
    assert proof(tmp_path, None, rules=(), env=()) is None


def test_rules_that_are_not_read_are_found_out(tmp_path):
    found = proof(tmp_path, Mpi(deaf=True))
    assert not found.holds
    assert refuted(tmp_path)
    assert str(found) == (
        "NOT PROVED: none of 2 measured sizes with a rule reaches it "
        "(the file is not read, or a forced algorithm or a component above comes first: lint says which)"
    )


EVERYWHERE = (Rule("allreduce", 2, 0, RING),)
"""Under these rules made invalid, the calls that a component sets itself up by are refused too."""


class Slow(Mpi):
    """Ends no launch after the first ``well``."""

    def __init__(self, well):
        super().__init__()
        self.well = well

    def run(self, asked):
        if self.launches == self.well:
            return LaunchOutcome(Status.TIMEOUT, "ended after 10 s")
        return super().run(asked)


SMALL = (*EVERYWHERE, Rule("allreduce", 2, 1024, Point()))


@pytest.mark.parametrize(
    ("launcher", "rules", "said"),
    [
        (Mpi(dies_of=SIZES), EVERYWHERE, "rank 0 was ended by signal 11"),
        (Mpi(dies_of=(8,)), SMALL, "rank 0 was ended by signal 11"),  # only small calls have a rule
        (Slow(0), RULES, "ended after 10 s"),
        (Slow(1), RULES, "a launch without the files: ended after 10 s"),
    ],
)
def test_launches_that_die_prove_nothing_and_refute_nothing(tmp_path, launcher, rules, said):
    found = proof(tmp_path, launcher, rules)
    assert not found.holds
    assert not refuted(tmp_path)
    assert str(found) == f"could not be checked: {said}"


@pytest.mark.parametrize("deaf", [False, True])
def test_a_library_that_dies_of_small_calls_is_asked_with_large_ones(tmp_path, deaf):
    found = proof(tmp_path, Mpi(dies_of=(8,), deaf=deaf), EVERYWHERE)
    assert (found.rows, found.rows_reached) == (2, 0 if deaf else 2)
    assert found.holds is not deaf
    assert refuted(tmp_path) is deaf


@pytest.mark.parametrize("name", ["pml", "UCX_TLS", "coll_tuned_use_dynamic_rules"])
def test_a_variable_that_does_not_arrive_is_found_out(tmp_path, name):
    found = proof(tmp_path, Mpi(forgets=(name,)))
    assert not found.holds
    assert f"{name} is None" in str(found)


def test_another_parameter_that_the_files_change_is_found_out(tmp_path):
    """As where the files take the place of the site's own, which picks the network."""

    def site(env, launch):
        return {"pml_base_verbose": "0"} | ({"btl": "^tcp"} if launch != 1 else {"btl": ""})

    found = proof(tmp_path, Mpi(site=site))
    assert refuted(tmp_path)
    assert str(found) == "NOT PROVED: the files change btl too, from '^tcp' to '' (1 such parameters)"


def test_what_the_setting_itself_changes_and_what_each_launch_has_of_its_own_is_none(tmp_path):
    def site(env, launch):
        derived = "9" if "UCX_TLS" in env else "1"
        garbage = dict.fromkeys(NEVER_SET, f"{launch % 2}")
        return {"ess_jobid": f"{launch}", "btl_flags": derived, **garbage}

    launcher = Mpi(site=site)
    assert proof(tmp_path, launcher).holds
    assert launcher.launches == 4
