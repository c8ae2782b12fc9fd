"""Every variable of the real libraries is read and classed; what would be tried is taken by them."""

import csv
import os
import re
import sys
from io import StringIO
from pathlib import Path

import pytest

from autotune.cli import main
from autotune.commands.hydra_bridge import answer_of
from autotune.resources import space_text
from autotune.space.loader import load_space
from autotune.stacks import dialect
from autotune.stacks.cleared import clearance, forced
from autotune.stacks.installation import find
from autotune.stacks.knobs import Class, KnobKind, discovered_space, levels, listings, openmpi_in_use
from autotune.stacks.knobs.child import ask
from autotune.stacks.knobs.listing import job_facts
from autotune.stacks.knobs.recorded import recorded
from tests.integration.mpirun import launcher, python_of, run
from tests.schemas import answer

SIZES = (8, 4096, 65536, 1048576)


def mpirun_of(name):
    python = python_of("" if name == "openmpi50" else name.upper())
    return str(Path(python).with_name("mpiexec")) if name == "intel" else launcher(python)


@pytest.fixture(scope="module")
def stacks():
    found = {}

    def of(name):
        if name not in found:
            mpi = find(mpirun_of(name))
            found[name] = mpi, {listing.layer: listing for listing in listings(mpi)}
        return found[name]

    return of


CASES = [
    pytest.param("openmpi50", "openmpi", 590, marks=pytest.mark.mpi),
    pytest.param("openmpi50", "ucx", 251, marks=pytest.mark.mpi),
    pytest.param("openmpi50", "libfabric", 90, marks=pytest.mark.mpi),
    pytest.param("openmpi41", "openmpi", 760, marks=pytest.mark.mpi41),
    pytest.param("openmpi41", "ucx", 240, marks=pytest.mark.mpi41),
    pytest.param("mpich", "mpich", 460, marks=pytest.mark.mpich),
    pytest.param("mpich", "ucx", 251, marks=pytest.mark.mpich),
    pytest.param("mpich", "libfabric", 90, marks=pytest.mark.mpich),
    pytest.param("intel", "intelmpi", 600, marks=pytest.mark.intel),
    pytest.param("intel", "libfabric", 90, marks=pytest.mark.intel),
]


@pytest.mark.parametrize(("name", "layer", "at_least"), CASES)
def test_every_variable_is_classed_by_exactly_one_rule(stacks, name, layer, at_least):
    """Overlapping rules raise while a listing is made; here none may be without a rule either."""
    listing = stacks(name)[1][layer]
    own = [c for c in listing.knobs if not c.knob.children or c.knob.documentation]
    assert len(own) >= at_least
    assert listing.version
    assert listing.without_rule == ()
    assert sum(listing.counts.values()) == len(listing.knobs)
    assert {c.knob.name for c in listing.knobs if c.klass is Class.PERFORMANCE}


@pytest.mark.parametrize(("name", "layer", "at_least"), CASES)
def test_every_performance_knob_has_levels_or_is_free_text(stacks, name, layer, at_least):
    for classed in stacks(name)[1][layer].knobs:
        if classed.klass is Class.PERFORMANCE and not (classed.rule and classed.rule.levels):
            found = levels(classed.knob, SIZES)
            assert len(found) > 1 or classed.knob.kind in ("text", "list"), classed.knob


@pytest.mark.parametrize(
    "name",
    [pytest.param("openmpi50", marks=pytest.mark.mpi), pytest.param("openmpi41", marks=pytest.mark.mpi41)],
)
def test_nothing_of_open_mpis_listing_is_missed(stacks, name):
    mpi, found = stacks(name)
    raw = ask([str(mpi.mpirun.resolve().with_name("ompi_info")), "--all", "--parsable"])
    names = set(re.findall(r"^mca:[^:]*:[^:]*:param:([^:]+):type:", raw, re.MULTILINE))
    assert {c.knob.name for c in found["openmpi"].knobs} == names


@pytest.mark.parametrize(
    ("name", "space"),
    [
        pytest.param("openmpi50", "openmpi_ucx_local", marks=pytest.mark.mpi),
        pytest.param("openmpi41", "openmpi_ucx_local", marks=pytest.mark.mpi41),
        pytest.param("mpich", "mpich_local", marks=pytest.mark.mpich),
        pytest.param("intel", "intelmpi_local", marks=pytest.mark.intel),
    ],
)
def test_doctor_lists_every_knob_kept_or_dropped_with_its_reason(name, space, stacks, capsys):
    _, found = stacks(name)
    assert main(["doctor", "--json", "--mpirun", mpirun_of(name), "--space", space]) == 0
    document = answer(capsys.readouterr().out)
    assert all(row["reason"] for row in (*document["knobs"], *document["kept"], *document["dropped"]))
    whole = [(row["layer"], row["name"]) for row in document["knobs"] if row["value"] is None]
    assert sorted(whole) == sorted((layer, c.knob.name) for layer, one in found.items() for c in one.knobs)
    kept = {row["name"] for row in document["knobs"] if row["kept"]}
    assert kept
    for one in found.values():
        others = {c.knob.name for c in one.knobs if c.klass is not Class.PERFORMANCE}
        assert kept & others <= {"pml"}
    declared = {p.name for p in load_space(space_text(space), space).parameters}
    gone = {row["parameter"] for row in document["dropped"] if row["value"] is None}
    if "provider" in space_text(space):
        assert "shared_memory" in document["facts"]  # as a campaign on this machine has it
        assert "FI_PROVIDER" in gone
    assert {row["parameter"] for row in document["kept"]} | gone == declared
    assert gone.isdisjoint(row["parameter"] for row in document["kept"])


PROGRAM = "from mpi4py import MPI; c = MPI.COMM_WORLD; assert c.allreduce(bytearray(0) or c.rank + 1) == 3"


@pytest.mark.mpi
def test_a_discovered_space_holds_what_is_in_effect_and_open_mpi_takes_its_levels(stacks):
    mpi, found = stacks("openmpi50")
    words = dialect(mpi.flavour)
    stack = words.detect(mpi, {}, {}, 2)
    facts = stack.facts | openmpi_in_use(mpi, {}) | job_facts(1, ["allreduce"])
    space = discovered_space([c for one in found.values() for c in one.knobs], facts, SIZES)
    names = {p.name for p in space.parameters}
    assert {"pml", "btl_sm_eager_limit", "UCX_MM_FIFO_SIZE", "UCX_RNDV_THRESH", "coll_sm_priority"} <= names
    dropped = {d.parameter: d.reason for d in space.dropped if d.value is None}
    assert dropped["btl_tcp_eager_limit"] == "needs btl_in_use:tcp"
    assert dropped["UCX_POSIX_FIFO_SIZE"] == "set by UCX_MM_FIFO_SIZE"
    performance = {c.knob.name for one in found.values() for c in one.knobs if c.klass is Class.PERFORMANCE}
    assert performance <= names | set(dropped)
    sample = {
        "btl_sm_eager_limit": {},
        "UCX_RNDV_THRESH": {"pml": "ucx"},
        "UCX_PROTO_OVERHEAD": {"pml": "ucx"},
        "UCX_MM_BW": {"pml": "ucx"},
        "UCX_ALLOC_PRIO": {"pml": "ucx"},
        "op_avx_support": {},
    }
    for name, others in sample.items():
        point = space.complete({**others, name: space[name].values[-1]})
        variables, _ = words.environment(space, point, {})
        done = run([sys.executable, "-c", PROGRAM], env=variables)
        assert done.returncode == 0, (name, done.stderr)
        assert "UCX  WARN" not in done.stdout + done.stderr, (name, done.stdout)


@pytest.mark.mpi
def test_the_verb_prints_a_table_json_and_csv(capsys):
    mpirun = launcher()
    assert main(["doctor", "--knobs", "--mpirun", mpirun, "--stack", "ucx"]) == 0
    out = capsys.readouterr().out
    assert "UCX_RNDV_THRESH" in out
    assert "UCX_NET_DEVICES" not in out
    assert re.search(r"ucx: \d+ variables: \d+ performance, .* known to no rule: none", " ".join(out.split()))
    assert main(["doctor", "--knobs", "--mpirun", mpirun, "--stack", "ucx", "--all", "--json"]) == 0
    (document,) = answer(capsys.readouterr().out)["libraries"]
    assert sum(document["counts"].values()) == len(document["knobs"])
    assert next(k for k in document["knobs"] if k["name"] == "UCX_NET_DEVICES")["levels"] == []
    assert main(["doctor", "--knobs", "--mpirun", mpirun, "--stack", "libfabric", "--csv"]) == 0
    assert {row["class"] for row in csv.DictReader(StringIO(capsys.readouterr().out))} == {"performance"}


@pytest.mark.mpi
def test_variables_of_the_users_shell_do_not_pass_for_defaults(monkeypatch):
    monkeypatch.setenv("UCX_TLS", "self")
    monkeypatch.setenv("OMPI_MCA_btl_sm_eager_limit", "8192")
    found = listings(find(launcher()), ("ucx", "openmpi"))
    defaults = {c.knob.name: c.knob.default for one in found for c in one.knobs}
    assert defaults["UCX_TLS"] == "all"
    assert defaults["btl_sm_eager_limit"] == "4096"
    assert "UCX_TLS" in os.environ


@pytest.mark.mpich
def test_mpich_without_an_mpi_launch(stacks):
    mpi, found = stacks("mpich")
    assert Path(mpi.library).exists()
    knobs = {c.knob.name: c.knob for c in found["mpich"].knobs}
    assert knobs["MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"].default == "auto"
    assert "ring" in knobs["MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"].allowed
    assert knobs["MPIR_CVAR_BCAST_SHORT_MSG_SIZE"].component == "collective"
    assert "openmpi" not in found


@pytest.mark.mpich
def test_what_is_recorded_of_mpich_is_what_it_declares(stacks):
    knobs = {c.knob.name: c.knob for c in stacks("mpich")[1]["mpich"].knobs}
    record = recorded()
    both = [name for name in knobs if name in record]
    assert len(both) > 440
    words = [name for name in both if record[name].kind is KnobKind.ENUMERATOR]
    assert all(set(knobs[name].allowed) <= set(record[name].allowed) for name in words)


@pytest.mark.mpich
def test_a_discovery_tries_no_algorithm_that_is_wrong_for_some_program(stacks):
    """MPICH declares its algorithms as variables: the table of checked ones holds for these, too."""
    installation, _ = stacks("mpich")
    words = ["conf=mpich_local", f"mpi.mpirun={installation.mpirun}", "space=discover"]
    known, name = clearance("mpich", installation.version), "MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM"
    site = answer_of(lambda scenario, site: site, [*words, "collective=[allgather,allreduce,alltoall]"])
    assert {"ring", "brucks"} <= {*site.knobs[name].values}
    values = [(p.name, str(v)) for p in site.knobs.parameters for v in p.values if v != p.unset]
    pairs = [pair for variable in values for pair in forced("mpich", *variable)]
    assert {("allreduce composition", "1"), ("allgather composition", "2")} <= {*pairs}
    assert ("allgather posix", "ipc_read") in pairs
    assert not [pair for pair in pairs if known.refusal(*pair)]
    left_out = {(one.parameter, one.value) for one in site.knobs.dropped}
    assert {(name, "recexch_doubling"), ("MPIR_CVAR_ALLREDUCE_COMPOSITION", "4")} <= left_out
    assert ("MPIR_CVAR_ALLGATHER_COMPOSITION", "1") in left_out
