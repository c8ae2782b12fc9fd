"""Slow settings of messages, planted in a simulated cluster, are found; what harms messages is priced."""

import json
import os

import pytest

from tests.program import autotune

WORDS = (
    *("conf=allreduce_8node", "machine=hdr200_128", "hydra/launcher=simulated", "sizes=[8,1k,8k,64k]"),
    *("cluster.nodes=4", "cluster.ppn=8", "proposer=random", "campaign.dir=c"),
    *("fix.NPS=1", "fix.mapping=block", "fix.UCX_TLS=all"),
    *("verify.launches=8", "verify.max_loss=0.05"),
)
MESSAGES = ("collective=[]", "pattern=[pingpong,halo]")
RENDEZVOUS = (
    *("simulate.site.UCX_RNDV_THRESH_INTER=0", "simulate.site.UCX_RNDV_THRESH_INTRA=0"),
    *("fix.component=han", "screening.enabled=false", "budget.launches=8"),
)
DISCOVER = (
    *("space=discover", "discover.space=openmpi_ucx_cluster", "discover.launches=60", "budget.launches=4"),
    "fix.component=tuned",
)
# The stack's default is 64; factors by size are those that 4096 has against it here (docs/patterns.md).
EAGER = (
    "simulate.knobs={btl_sm_eager_limit:{256:1.0,4096:{pingpong:[1,0.6,1,1],halo:[1,0.7,1,1]},"
    "65536:{pingpong:[1,0.6,0.9,1.5],halo:[1,0.7,1.2,1.5]}}}"
)
HARMFUL = "simulate.knobs={eager:{a:{allreduce:0.7,pingpong:1.5},b:1.0}}"
SEEDS = range(1, 1 + int(os.environ.get("PLANTED_SEEDS", "1")))  # All of ten found what was planted.


def campaign(cwd, *words):
    """The text that a campaign ends with, and its setting as exported."""
    done = autotune(*WORDS, *words, "export=[json]", cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = (cwd / "c/export").glob("*.json")
    return " ".join(done.stdout.split()), json.loads(file.read_text())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rendezvous_that_the_site_forces_is_taken_back(tmp_path, seed):
    text, exported = campaign(tmp_path, *MESSAGES, *RENDEZVOUS, f"seed={seed}")
    assert exported["point"].get("UCX_RNDV_THRESH_INTER", "auto") != "auto", text
    assert "verified: " in text


@pytest.mark.parametrize("seed", SEEDS)
def test_an_eager_limit_of_64_is_found(tmp_path, seed):
    text, exported = campaign(tmp_path, *MESSAGES, *DISCOVER, EAGER, f"seed={seed}")
    assert str(exported["point"].get("btl_sm_eager_limit")) == "4096", text
    assert "verified: " in text


@pytest.mark.parametrize("seed", SEEDS)
def test_what_helps_an_allreduce_and_slows_messages_is_priced(tmp_path, seed):
    text, exported = campaign(tmp_path, *DISCOVER, HARMFUL, f"seed={seed}")
    assert exported["point"].get("eager") == "a", text
    assert "beside it slower: 0.6" in text
    assert "of pingpong" in text


def test_with_the_pattern_among_the_collectives_it_is_refused(tmp_path):
    text, exported = campaign(tmp_path, *DISCOVER, HARMFUL, "pattern=pingpong", "seed=1")
    assert exported["point"].get("eager") != "a", text
