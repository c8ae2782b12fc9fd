"""Where the campaigns of a multirun live."""

from pathlib import Path

from autotune.commands.hydra_bridge import campaign_folder

WORDS = (
    "conf=allreduce_8node",
    "cluster.nodes=4",
    "cluster.ppn=8",
    "budget.launches=5",
    "fix.UCX_TLS='self,tcp'",
)
NAME = "cluster.nodes=4+cluster.ppn=8+fix.UCX_TLS='self+tcp'"


def test_a_folder_is_named_by_what_makes_another_campaign_without_commas():
    assert campaign_folder(Path("campaigns/x"), WORDS) == Path("campaigns/x") / NAME
    assert campaign_folder(Path("campaigns/x"), ()) == Path("campaigns/x")
    assert campaign_folder(Path("c"), ["space=mine/space.yaml"]) == Path("c/space=mine_space.yaml")
