"""Whole campaigns under Open MPI 4.1, MPICH and Intel MPI, each in an environment of its own.

The campaign runs in this interpreter, whatever MPI its ranks load.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from autotune.campaign.directory import read_campaign
from autotune.campaign.observing import estimated, measurement_of
from autotune.cli import main
from autotune.exporters.export_check import check_export
from autotune.exporters.files import export_files, how_to_use
from autotune.history.trial import Cell, Phase, Rule, Status, Subject, Trial
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.scenario import defaults, scenario_of
from autotune.site.check import READ_BACK, read_back
from autotune.space import Point
from autotune.stacks import dialect
from autotune.stacks.installation import find
from autotune.stacks.mpich import intel_id
from hydra_plugins.autotune.mpirun import MpirunLauncher
from tests.integration.mpirun import python_of
from tests.program import autotune, ran

FOUND = {
    "openmpi4": ("OPENMPI41", pytest.mark.mpi41),
    "mpich": ("MPICH", pytest.mark.mpich),
    "intelmpi": ("INTEL", pytest.mark.intel),
}
SPACES = {"openmpi4": "openmpi_ucx_local", "mpich": "mpich_local", "intelmpi": "intelmpi_local"}


CONFS = {"openmpi4": "allreduce_local", "mpich": "mpich_local", "intelmpi": "intelmpi_local"}


def marked(*names):
    return [pytest.param(name, marks=FOUND[name][1]) for name in names]


@pytest.fixture
def prefix(name, monkeypatch):
    """The environment with an MPI, where ``mpi=NAME`` looks for it."""
    found = Path(python_of(FOUND[name][0])).parent.parent
    monkeypatch.setenv("AUTOTUNE_STACKS", str(found))
    return found


SMALL = {
    "openmpi4": "allreduce: [default, recursive_doubling, ring]\n      bcast: [default, binomial]\n"
    "      alltoall: [default, pairwise]",
    "mpich": "allreduce: [auto, recursive_doubling, ring]\n      bcast: [auto, binomial]\n"
    "      alltoall: [auto, pairwise]",
    "intelmpi": "allreduce: [recursive_doubling, ring]\n      bcast: [binomial, ring]\n"
    "      alltoall: [isend_irecv, pairwise]",
}
"""Few enough for seconds."""


def small_space(name: str, tmp_path: Path) -> Path:
    """The shipped space's algorithms alone, few of them."""
    text = Path("search_spaces", f"{SPACES[name]}.yaml").read_text()
    stack = text[text.index("stack:") : text.index("parameters:")]
    algorithm = text[text.index("  algorithm:") :].partition("    collectives:")[0]
    path = tmp_path / "small.yaml"
    path.write_text(f"{stack}parameters:\n{algorithm}    collectives:\n      {SMALL[name]}\n")
    return path


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", marked("openmpi4", "mpich", "intelmpi"))
def test_a_small_campaign_ends_in_files_that_fresh_launches_confirm(name, prefix, ranks, tmp_path):
    done = autotune(
        f"conf={CONFS[name]}",
        f"mpi={name}",
        f"space={small_space(name, tmp_path)}",
        "collective=[allreduce,bcast,alltoall]",
        "sizes=[64,16384]",
        *(f"cluster.ranks={ranks}", "cluster.oversubscribe=true"),
        *("probe.budget_s=0.4", "budget.launches=4", "baseline.launches=2"),
        *("verify.launches=2", "verify.max_failures=1", "verify.max_loss=0.5", "verify.margin=0.9"),
        f"campaign.dir={tmp_path / 'campaign'}",
        cwd=tmp_path,
        AUTOTUNE_STACKS=str(prefix),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in (tmp_path / "campaign/journal.jsonl").read_text().splitlines()]
    seen = [event for event in lines if event["event"] == "observation"]
    assert len(seen) >= 2
    assert {event["status"] for event in seen} == {"ok"}, [event["reason"] for event in seen]
    swept = {
        (e["cell"]["collective"], str(e["cell"]["choice"]))
        for event in seen
        for e in event["estimates"]
        if e["cell"]["choice"]
    }
    assert len({collective for collective, _ in swept}) == 3
    assert len(swept) >= 6
    assert "Result: speed-up over the baseline" in done.stdout


@pytest.mark.parametrize("name", marked("mpich", "intelmpi"))
def test_files_of_a_site_are_read_back_at_the_ranks_of_a_job(name, prefix, tmp_path):
    """One tree of MPICH's for communicators of all sizes; of Intel MPI's scripts the one for those ranks."""
    site, scenario = bench_of(name)
    wanted = (2, 0, "recursive_doubling"), (2, 4096, "ring"), (3, 0, "ring")
    rules = [Rule("allreduce", n, size, Point.of({"algorithm": how})) for n, size, how in wanted]
    rules.append(Rule("bcast", 3, 0, Point.of({"algorithm": "binomial"})))
    source = Provenance(family=name, library=str(site.stack.installation.library), ranks=3)
    tuned = Recommendation(site.space.default, tuple(rules), provenance=source)
    formats = dialect(name).formats
    export_files(tuned, formats, tmp_path)
    assert read_back(tuned, formats, tmp_path, [(1, 2)], lambda _: (scenario, site)) == 0
    said = json.loads((tmp_path / READ_BACK).read_text())["said"]
    assert said["2"].startswith("files in effect on fresh launches: every rank sees their 1 parameter"), said
    if name == "mpich":
        assert "refuses an invalid one" in said["2"]
        (tmp_path / "mpich-env.sh").write_text("export MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE=''\n")
        measurement = measurement_of(scenario, 2)
        unread = check_export(formats, tuned, tmp_path, site.observer, measurement, site.space)
        assert unread.refutes
    else:
        assert {path.name for path in tmp_path.glob("*.sh")} == {f"intel-mpi-env-{n}.sh" for n in (2, 3)}
        assert "mpiexec -n 3 " in how_to_use(tuned, formats, tmp_path)


@pytest.mark.parametrize("name", marked("mpich", "intelmpi"))
def test_a_site_exports_what_was_fast_and_reads_it_back(name, prefix, tmp_path, monkeypatch):
    """The whole way of ``conf=site``: launches are real, one algorithm is planted as the fastest."""

    def planted(cell, *_):
        called = Cell(cell.collective, cell.comm_size, cell.message_bytes, Point.of(cell.values))
        return estimated(called, np.full(9, 1e-6 if cell.values.get("algorithm") == "ring" else 1e-5))

    monkeypatch.setattr("autotune.campaign.observing._estimate", planted)
    words = (
        *("conf=site", "hydra/launcher=mpirun", f"mpi={name}", f"space={small_space(name, tmp_path)}"),
        *("site.nodes=[1]", "site.ppn=[2]", "site.collectives=[allreduce]", "sizes=[64,16384]"),
        *("budget.launches=3", "verify.enabled=false", "probe.budget_s=0.2"),
    )
    assert main([*words, f"campaign.dir={tmp_path / 'site'}", "--quiet"]) == 0
    export = tmp_path / "site/export"
    said = json.loads((export / READ_BACK).read_text())["said"]
    assert said["2"].startswith("files in effect on fresh launches: every rank sees their 1 parameter"), said
    if name == "mpich":
        assert "MPIR_Allreduce_intra_ring" in (export / "mpich-selection.json").read_text()
    else:
        ring = f"export I_MPI_ADJUST_ALLREDUCE={intel_id('allreduce', 'ring')}:0-2147483647"
        assert ring in (export / "intel-mpi-env.sh").read_text().splitlines()


BY_LIBFABRIC = {
    "mpich": {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi"},
    "intelmpi": {"I_MPI_FABRICS": "ofi"},
}
"""Sends all messages by libfabric, also those between ranks of this machine."""

PROVIDERS = ["tcp", "tcp;ofi_rxm", "shm"]


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        pytest.param("mpich", "tcp;ofi_rxm", marks=pytest.mark.mpich),
        pytest.param("intelmpi", "shm", marks=pytest.mark.intel),
    ],
)
def test_a_campaign_turns_all_of_a_providers_variables(name, provider, prefix, tmp_path):
    """One at a time, so that each level is launched; their effect is the verification's affair."""
    site, _ = bench_of(name, BY_LIBFABRIC[name])
    shipped = Path("search_spaces", f"{SPACES[name]}.yaml").read_text()
    after = {"mpich": "  cma_threshold:", "intelmpi": "  I_MPI_SHM_CELL_FWD_SIZE:"}[name]
    (tmp_path / "providers.yaml").write_text(shipped[: shipped.index(after)])
    levels = {
        (p.name, value)
        for p in site.space.parameters
        if p.name.startswith("FI_") and provider in p.when.get("FI_PROVIDER", ())
        for value in p.values
    }
    assert len(levels) >= 2
    done = autotune(
        f"conf={CONFS[name]}",
        f"mpi={name}",
        *(f"+mpi.env.{variable}={value}" for variable, value in BY_LIBFABRIC[name].items()),
        f"space={tmp_path / 'providers.yaml'}",
        f"fix.FI_PROVIDER='{provider}'",
        *("collective=allreduce", "sizes=[64]", "cluster.ranks=2", "proposer=ofat"),
        *("screening.enabled=false", "probe.budget_s=0.1", "baseline.launches=1", "verify.enabled=false"),
        f"budget.launches={3 * len(levels) + 2}",  # leaders that are uncertain are launched again beside them
        f"campaign.dir={tmp_path / 'campaign'}",
        cwd=tmp_path,
        AUTOTUNE_STACKS=str(prefix),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    history = read_campaign(tmp_path / "campaign").history
    assert {o.status for o in history} == {Status.OK}, [o.reason for o in history if not o.ok]
    launched = [o.trial.point for o in history.of(Phase.SEARCH)]
    assert {pair for point in launched for pair in point.items()} >= levels
    first = history.of(Phase.SEARCH).observations[0].trial.number
    stdout = (tmp_path / f"campaign/launches/{first:04d}/stdout").read_text()
    assert f"libfabric provider: {provider}" in stdout


@pytest.mark.parametrize("name", marked("mpich", "intelmpi"))
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_provider_of_libfabric_is_proved_by_what_the_library_prints(name, provider, prefix, tmp_path):
    site, scenario = bench_of(name, BY_LIBFABRIC[name])
    if provider not in site.stack.providers:
        assert (name, provider) == ("intelmpi", "tcp;ofi_rxm")  # Intel's build offers tcp without it
        assert any(d.value == provider and d.reason for d in site.space.dropped)
        return
    point = site.space.complete({"FI_PROVIDER": provider})
    observer = site.observer(measurement_of(scenario, 2), site.space, tmp_path)
    seen = observer.observe(Trial(1, Phase.SEARCH, point, Subject.DEPLOYED))
    assert seen.ok, seen.reason
    printed = (tmp_path / "launches/0001/stdout").read_text()
    assert f"libfabric provider: {provider}" in printed
    stdout = observer.stack.render(site.space, Trial(2, Phase.SEARCH, point, Subject.DEPLOYED), ["allreduce"])
    assert stdout.must_print == (f"libfabric provider: {provider}",)


@pytest.mark.parametrize("name", marked("intelmpi"))
def test_what_the_library_does_not_print_was_not_applied(name, prefix, tmp_path, monkeypatch):
    monkeypatch.setenv("I_MPI_DEBUG", "0")
    site, scenario = bench_of(name)
    rules = (Rule("allreduce", 2, 0, Point.of({"algorithm": "ring"})),)
    trial = Trial(1, Phase.VERIFY, site.space.default, Subject.DEPLOYED, rules=rules)
    seen = site.observer(measurement_of(scenario, 2), site.space, tmp_path).observe(trial)
    assert seen.status is Status.NOT_APPLIED
    assert "I_MPI_ADJUST_ALLREDUCE" in seen.reason


def bench_of(name: str, env=None, require=()):
    """The site of a stack, and a scenario of short launches."""
    document = defaults()
    scenario = scenario_of(
        {
            **document,
            "collective": "allreduce",
            "sizes": [64, 16384],
            "space": SPACES[name],
            "campaign": {"dir": "unused"},
            "cluster": {"ranks": 2},
            "mpi": {"stack": name, "env": env or {}},
            "probe": {"budget_s": 0.3},
            "require": list(require),
        },
        "stacks",
    )
    return MpirunLauncher().connect(scenario), scenario


SUMS = Path(__file__).with_name("sums.py")
PLACES = {
    "mpich": ({}, {"MPIR_CVAR_ODD_EVEN_CLIQUES": "1"}),
    "intelmpi": ({}, {"I_MPI_PIN_PROCESSOR_LIST": "1,0"}),
    "openmpi4": ({}, {"OMPI_MCA_hwloc_base_binding_policy": "none"}),
}
"""Mappings of ranks: MPICH takes groups of ranks for nodes, the others bind them otherwise."""


def sums(prefix: Path, name: str, env) -> str:
    """Digests of the sums of four ranks."""
    words = dialect({"openmpi4": "openmpi"}.get(name, name))
    mpirun = prefix / "bin/mpiexec"
    own = {"MPI4PY_LIBMPI": str(find(str(mpirun)).library), "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"}
    own |= {
        **words.surroundings(mpirun),
        **words.mpirun_env(),
        "I_MPI_DEBUG": "0",
        "MPIR_CVAR_DEBUG_SUMMARY": "0",
    }
    over = ["--oversubscribe"] if name == "openmpi4" else []
    done = ran(
        [mpirun, *over, "-n", "4", sys.executable, SUMS, "64", "4096"], env={**os.environ, **own, **env}
    )
    assert done.returncode == 0, done.stderr
    assert "not alike" not in done.stdout
    return done.stdout


@pytest.mark.parametrize("name", marked("openmpi4", "mpich", "intelmpi"))
def test_what_is_required_to_be_reproducible_is_so_wherever_ranks_are(name, prefix):
    site, _ = bench_of(name, require=["reproducible"])
    marks = {k: v for k, v in site.stack.fixed.items() if not k.endswith("yield_when_idle")}
    assert marks.items() >= dialect(site.space.stack).reproducible.items()
    assert site.space.dropped
    trial = Trial(1, Phase.SEARCH, site.space.default)
    choices = site.stack.render(site.space, trial, ["allreduce"]).choices["allreduce"]
    by_algorithm = {choice.values.get("algorithm"): choice for choice in reversed(choices)}
    assert (name == "intelmpi") == (list(by_algorithm) == [None])  # it takes its own under the mark
    seen = set()
    for choice in by_algorithm.values():
        forced = {}
        for variable, value in choice.cvars.items():
            forced |= {variable if name == "mpich" else f"OMPI_MCA_{variable}": str(value)}
        if name == "openmpi4":
            forced["OMPI_MCA_coll_tuned_use_dynamic_rules"] = "1"
        found = {sums(prefix, name, {**marks, **forced, **place}) for place in PLACES[name]}
        assert len(found) == 1, (choice, found)
        seen |= found
    if name == "intelmpi":
        seen = {sums(prefix, name, {"I_MPI_ADJUST_ALLREDUCE": number}) for number in ("1", "8")}
    assert len(seen) > 1  # so another order of additions shows


@pytest.mark.parametrize("name", marked("mpich"))
def test_without_the_requirement_sums_depend_on_where_ranks_are(name, prefix):
    assert len({sums(prefix, name, place) for place in PLACES[name]}) > 1


@pytest.mark.parametrize("name", marked("openmpi4", "mpich", "intelmpi"))
def test_the_marks_of_reproducible_results_are_exported_even_where_nothing_else_is(name, prefix):
    site, _ = bench_of(name, require=["reproducible"])
    words = dialect(site.space.stack)
    assert words.needed(site.stack.fixed, {}, False).items() >= words.reproducible.items()
