"""Whatever wins a campaign, Open MPI 5.0 and 4.1 read its files back as written, in the default formats.

Winners are drawn from the shipped space as this machine has it: a random point, and random rules from random
sizes on.
"""

import re
from dataclasses import replace

import numpy as np
import pytest

from autotune.campaign.observing import measurement_of
from autotune.commands.hydra_bridge import run_task
from autotune.exporters.export_check import check_export
from autotune.exporters.files import export_files
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.space import Point
from autotune.stacks import coll_tuned, dialect
from tests.integration.mpirun import launcher, python_of
from tests.suites import OPENMPI

SIZES = (8, 512, 4096, 65536)
COLLECTIVES = tuple(coll_tuned.ALGORITHMS)
FORMATS = dialect("openmpi").formats


@pytest.fixture(scope="module", params=OPENMPI)
def place(request):
    """A scenario and the site of a real Open MPI."""
    mpirun, found = launcher(python_of(request.param)), []
    words = ("conf=allreduce_local", "cluster.ranks=2", f"sizes=[{','.join(map(str, SIZES))}]")
    words = (*words, "probe.budget_s=0.2", f"mpi.mpirun={mpirun}")
    run_task(lambda scenario, site: found.append((scenario, site)) or 0, words)
    ((scenario, site),) = found
    assert site.stack.installation.version.startswith("4.1." if request.param else "5.")
    return scenario, site


def winner(space, site, seed):
    """A random setting with random rules for two collectives, in the environment that a campaign gives it."""
    rng = np.random.default_rng(seed)
    (point,) = space.draw(rng, 1)
    rules = []
    for collective in rng.choice(COLLECTIVES, 2, replace=False):
        choices = space.choices(collective, point)
        one_row = collective in coll_tuned.ONE_ROW or collective == "barrier"
        starts = [0] if one_row else [0, *sorted(rng.choice(SIZES[1:], rng.integers(3), replace=False))]
        drawn = rng.integers(len(choices), size=len(starts))
        rules += [Rule(str(collective), 2, int(n), choices[i]) for n, i in zip(starts, drawn, strict=True)]
    words = dialect(space.stack)
    env, placement = words.environment(space, point, {}, site.stack.coll)
    env |= words.needed(site.stack.fixed, env, rules=True)
    both = {n: v for n, v in site.stack.fixed.items() if n not in env}
    pairs = {"env": env, "placement": placement, "both_sides": both}
    source = Provenance("random", ranks=2, **{name: tuple(its.items()) for name, its in pairs.items()})
    return Recommendation(point, tuple(rules), provenance=source)


@pytest.mark.parametrize("seed", range(4))
def test_the_files_of_a_random_winner_are_read_back_as_written(place, tmp_path, seed):
    scenario, site = place
    recommendation = winner(site.space, site, seed)
    collectives = tuple(sorted({rule.collective for rule in recommendation.rules}))
    measurement = measurement_of(replace(scenario, collective=collectives), site.placement.ranks)
    # The second format lies where a comma forbids the first one.
    folder = tmp_path / ("nodes=1+ppn=2", "nodes=1,ppn=2")[seed % 2]
    export_files(recommendation, FORMATS, folder)
    proof = check_export(FORMATS, recommendation, folder, site.observer, measurement, site.space)
    if proof is None:  # the defaults won
        assert not recommendation.provenance.env
        assert not any(rule.choice.get("algorithm", "default") != "default" for rule in recommendation.rules)
    else:
        assert proof.holds, (str(proof), recommendation)


def test_files_for_patterns_are_proved_by_a_launch_that_calls_something(place, tmp_path):
    """No rules choose for a pattern: what its files set is seen by any launch that comes to its end."""
    scenario, site = place
    env = (("OMPI_MCA_coll_han_priority", "0"),)
    recommendation = Recommendation(Point(), (), provenance=Provenance("c", env=env))
    export_files(recommendation, FORMATS, tmp_path)
    measurement = measurement_of(replace(scenario, collective=("halo", "put")), site.placement.ranks)
    proof = check_export(FORMATS, recommendation, tmp_path, site.observer, measurement, site.space)
    assert proof.holds, str(proof)


def test_a_variable_of_ucx_that_is_not_read_is_found_out(place, tmp_path):
    scenario, site = place
    env = (("OMPI_MCA_pml", "ucx"), ("OMPI_MCA_opal_common_ucx_tls", "any"))
    env += (("OMPI_MCA_opal_common_ucx_devices", "any"), ("UCX_ZCOPY_THRESH", "4k"))
    recommendation = Recommendation(Point(), (), provenance=Provenance("c", env=env))
    export_files(recommendation, FORMATS, tmp_path)
    measurement = measurement_of(scenario, site.placement.ranks)

    def check():
        return check_export(FORMATS, recommendation, tmp_path, site.observer, measurement, site.space)

    proof = check()
    assert proof.holds, str(proof)
    file = tmp_path / "ucx.conf"
    file.write_text(re.sub("(?m)^UCX_ZCOPY_THRESH=.*", "", file.read_text()))
    proof = check()
    assert not proof.holds
    assert "UCX uses UCX_ZCOPY_THRESH=auto, asked for 4K" in proof.reason
