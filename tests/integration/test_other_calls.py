"""A setting that makes an allreduce faster and messages slower, planted under a real Open MPI."""

import json
import re

import pytest

from tests import program
from tests.integration.mpirun import SHARED, compiled

pytestmark = [pytest.mark.mpi, pytest.mark.slow, pytest.mark.timeout(600)]

PLANTED = """
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
static void wait_us(double us)
{
    double until = PMPI_Wtime() + 1e-6 * us;
    while (PMPI_Wtime() < until)
        ;
}
static int level(void)
{
    static int is = -1;
    if (is < 0)
        is = getenv("PLANTED") ? atoi(getenv("PLANTED")) : 0;
    return is;
}
int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    static const double us[] = {900, 0, 300};
    wait_us(us[level()]);
    return PMPI_Allreduce(send, recv, count, type, op, comm);
}
int MPI_Send(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    int size;
    PMPI_Type_size(type, &size);
    if (level() == 1 && (long)count * size >= 8192)
        wait_us(900);
    return PMPI_Send(data, count, type, to, tag, comm);
}
"""
"""Level 1 makes an allreduce much faster and messages from 8 KiB on much slower; level 2 makes an allreduce
less fast, and nothing slower."""
SPACE = """
parameters:
  PLANTED:
    values: [0, 1, 2]
    default: 0
    apply: {env: {PLANTED: "{value}"}}
"""
WORDS = (
    *("conf=allreduce_local", "sizes=[8,1k]", "proposer=grid", "screening.enabled=false", "campaign.dir=c"),
    *("probe.budget_s=0.9", "baseline.launches=1", "budget.launches=4", "confirm.share=0"),
    *("verify.launches=8", "verify.max_failures=1", "verify.error_rate=0.05", "cluster.ranks=2", "seed=1"),
    *("export=[json,openmpi_mca]", "budget.total_seconds=240"),
)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """A campaign over the planted levels: where it ran, and what it printed."""
    folder = tmp_path_factory.mktemp("planted")
    (folder / "planted.yaml").write_text(SPACE)
    library = compiled(PLANTED, folder / "planted.so", "-O1", *SHARED)
    words = (f"space={folder / 'planted.yaml'}", f"mpi.env.LD_PRELOAD={library}")
    done = program.autotune(*WORDS, *words, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, " ".join(done.stdout.split())


def test_the_best_setting_is_called_what_it_is_with_the_cost_of_each_slower_call(campaign):
    folder, said = campaign
    assert "for programs that mostly call allreduce: it makes other calls slower" in said
    assert re.search(r"0\.\d\d× \([^)]*\) at 8192 B of pingpong", said)
    exported = json.loads((folder / "c/export/recommendation.json").read_text())
    assert exported["point"]["PLANTED"] == 1
    slower = {
        (call["name"], call["message_bytes"]): call
        for call in exported["others"]
        if call["decision"] == "slower"
    }
    # Whether a call that is not planted seems slower beside other work is a chance, so nothing is said of it.
    for one in (slower["pingpong", 8192], slower["pingpong", 262144]):
        assert one["high"] < 0.5
        assert one["tuned_s"] - one["default_s"] > 400e-6
    assert (
        "for programs that mostly call allreduce" in (folder / "c/export/openmpi-mca-params.conf").read_text()
    )


def test_install_does_not_take_it_unless_it_is_asked_to(campaign):
    """It takes the other level if there was time to verify it, else nothing; either way it says why."""
    folder, _ = campaign
    home = folder / "home"
    home.mkdir()
    told = program.autotune("install", "c", "--yes", cwd=folder, HOME=str(home))
    said = told.stdout + told.stderr
    assert "for programs that mostly call allreduce: it makes other calls slower" in said
    assert "--choice recommended takes it" in said
    assert not [path for path in home.rglob("*") if path.is_file() and "PLANTED=1" in path.read_text()]
    asked = program.autotune("install", "c", "--yes", "--choice", "recommended", cwd=folder, HOME=str(home))
    assert asked.stdout.startswith("this setting is for programs that mostly call allreduce")
