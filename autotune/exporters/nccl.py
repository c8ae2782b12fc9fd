"""The table of NCCL's and RCCL's example tuner plugin (step 12 of the flow)."""

from collections.abc import Mapping
from pathlib import Path

from autotune.errors import UserError, allowed
from autotune.exporters.launch_line import PROGRAM
from autotune.exporters.origin import UNTRIED, commented, remarks
from autotune.exporters.settings import EVERYWHERE, check_family, everywhere
from autotune.history.trial import Rule
from autotune.recommend.front import Recommendation
from autotune.stacks import nccl

TABLE_FILE = "nccl_tuner.conf"
"""Name of the table: the plugin looks for it in the working directory too."""

_VALUES = {"algorithm": nccl.ALGORITHMS, "protocol": nccl.PROTOCOLS}


class NcclTuner:
    """Algorithm, protocol and channels by size, for the nodes and ranks that were measured."""

    name = "nccl"
    summary = f"{TABLE_FILE}: table of NCCL's and RCCL's example tuner plugin; format checked, never run"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The table; without any row where there are no rules.

        Raises:
            UserError: measured on an MPI, a word that the plugin would take for another, or sizes left out.
        """
        check_family(recommendation, "nccl")
        by_collective: dict[tuple[str, int], list[Rule]] = {}
        for rule in everywhere(recommendation):
            by_collective.setdefault((rule.collective, rule.comm_size), []).append(rule)
        lines = [
            line for where, rules in by_collective.items() for line in _rows(*where, rules, recommendation)
        ]
        head = [
            *remarks(recommendation),
            UNTRIED,
            EVERYWHERE,
            "sizes of allgather and reducescatter are those of all ranks together",
            "",
            f"use: {self.use(recommendation, directory)}",
            "collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks",
        ]
        return {TABLE_FILE: "\n".join([*_short(commented(head)), *lines]) + "\n"}

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By the plugin, which its user builds."""
        path = directory.absolute() / TABLE_FILE
        return f"NCCL_TUNER_PLUGIN=…/libnccl-tuner-example.so NCCL_TUNER_CONFIG_FILE={path} {PROGRAM}"


def _rows(collective: str, comm_size: int, rules: list[Rule], recommendation: Recommendation) -> list[str]:
    """The rows of one collective and communicator size; every size has one."""
    if collective not in nccl.COLLECTIVES:
        raise UserError(f"the tuner has no {collective}", allowed(collective, nccl.COLLECTIVES))
    name = nccl.COLLECTIVES[collective]
    factor = comm_size if name in nccl.TOTAL else 1
    if rules[0].min_bytes or not all("algorithm" in rule.choice for rule in rules):
        raise UserError(
            f"{collective} on {comm_size} ranks has sizes without an algorithm",
            "where no row matches the plugin leaves NCCL one channel: measure all sizes from 0 on",
        )
    source = recommendation.provenance
    nodes = source.nodes if comm_size == source.ranks and not source.parts else -1
    made = []
    for rule, after in zip(rules, [*rules[1:], None], strict=True):
        words = {key: str(rule.choice.get(key, "simple")) for key in _VALUES}
        for key, known in _VALUES.items():
            if words[key] not in known:
                raise UserError(f"the tuner knows no {key} {words[key]!r}", allowed(words[key], known))
        channels = str(rule.choice.get("channels", -1))
        if not channels.removeprefix("-").isdecimal():
            raise UserError(f"channels={channels!r} is no number", "a number of channels, or -1")
        end = after.min_bytes * factor - 1 if after else nccl.LARGEST
        fields = (name, rule.min_bytes * factor, end, *words.values(), channels, nodes, comm_size)
        made.append(",".join(map(str, fields)))
    return made


def _short(lines: list[str]) -> list[str]:
    """Comments in lines that the plugin reads whole: the rest of a longer one would be a row."""
    most = nccl.LONGEST_LINE - 4
    made = []
    for line in lines:
        while len(line.encode()) > most:
            cut = len(line.encode()[:most].decode(errors="ignore"))
            made.append(line[:cut])
            line = f"# {line[cut:]}"
        made.append(line)
    return made
