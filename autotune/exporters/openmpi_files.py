"""Further files of Open MPI and UCX (step 12 of the flow)."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from autotune.errors import UserError
from autotune.exporters.launch_line import mpirun, parted, stated
from autotune.exporters.origin import commented, remarks
from autotune.exporters.settings import RULES_FILE, DeployedSettings, job_wide, settings
from autotune.history.lookup import table_starts
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Recommendation
from autotune.stacks import coll_tuned
from autotune.stacks.tables import tables

TUNE_FILE, HAN_FILE, UCX_FILE = "autotune.tune", "coll_han_rules.conf", "ucx.conf"  # Names of the files.

HAN_COMPONENTS = ("self", "basic", "libnbc", "tuned", "sm", "adapt", "han")
"""Components that a rule of HAN can name."""

HAN_LEVELS: Mapping[str, int] = {"han_intra": 0, "han_inter": 1, "component": 2}
"""Per-size value → topological level: inside a node, between nodes, the whole communicator."""


class Tune:
    """A file for ``mpirun --tune``, in the subset that 4.1 and 5.0 both read right."""

    name = "tune"
    summary = f"{TUNE_FILE}: for mpirun --tune (Open MPI 4.1, 5.0; srun does not read it)"
    beside = (RULES_FILE,)

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The file and, where sizes differ, the rules file."""
        deployed = settings(recommendation, directory)
        for name, value in {**deployed.mca, **deployed.other}.items():
            if not value or any(c.isspace() or c in "'\"" for c in value):
                raise UserError(
                    f"{name}={value!r} cannot be written to a file for --tune",
                    "such a file takes no empty values, no spaces and no quotes; use openmpi_mca instead",
                )
        use = self.use(recommendation, directory)
        how = f"use: {use}" if use else f"not by the name of this file: {parted(directory / TUNE_FILE)}"
        lines = commented([*remarks(recommendation), "", how])
        lines += [f"--mca {name} {value}" for name, value in deployed.mca.items()]
        lines += [f"-x {name}={value}" for name, value in deployed.other.items()]
        return {TUNE_FILE: "\n".join(lines) + "\n", **deployed.files}

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By ``--tune``; the command line beside it wins; on 5.0 a user's own file too."""
        path = directory.absolute() / TUNE_FILE
        return "" if parted(path) else mpirun(recommendation, ["--tune", shlex.quote(str(path))])


class HanRules:
    """Dynamic rules of ``coll_han``: which component works at which level."""

    name = "han_rules"
    summary = f"{HAN_FILE}: per-size rules of coll_han (Open MPI 4.1, 5.0)"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The rules file."""
        blocks: dict[str, list[str]] = {}
        for collective, by_size in tables(recommendation.rules).items():
            levels = {k for table in by_size.values() for r in table for k in r.choice if k in HAN_LEVELS}
            if not levels:
                continue
            if collective not in coll_tuned.HAN:
                known = ", ".join(sorted(coll_tuned.HAN))
                raise UserError(f"coll_han has no rules for {collective}", f"it has: {known}")
            ordered = sorted(levels, key=HAN_LEVELS.__getitem__)
            lines = [f"{len(ordered)}  # levels"]
            for level in ordered:
                lines += [f"{HAN_LEVELS[level]}  # {level}", *_han_level(level, by_size)]
            blocks[collective] = lines
        if not blocks:
            raise UserError(
                "no rule of this recommendation names a component for coll_han",
                f"per-size values: {', '.join(HAN_LEVELS)}",
            )
        head = [*remarks(recommendation), "", f"use: {self.use(recommendation, directory)}"]
        lines = [*commented(head), f"{len(blocks)}  # collectives"]
        for collective, block in blocks.items():
            lines += [collective, *block]
        return {HAN_FILE: "\n".join(lines) + "\n"}

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """With everything that the rules do not hold."""
        mca, other = job_wide(recommendation)
        mca["coll_han_use_dynamic_file_rules"] = "1"
        mca["coll_han_dynamic_rules_filename"] = str(directory.absolute() / HAN_FILE)
        return mpirun(recommendation, stated(mca, other))


class UcxConf:
    """``ucx.conf``, which UCX reads itself under any MPI."""

    name = "ucx_conf"
    summary = f"{UCX_FILE}: UCX variables, read from $UCX_CONFIG_DIR, $HOME or the working directory"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The file; without any variable where the recommendation sets none."""
        deployed = settings(recommendation, directory)
        return {UCX_FILE: ucx_text(recommendation, deployed, self.use(recommendation, directory))}

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """With everything job-wide that UCX does not read."""
        deployed = settings(recommendation, directory)
        folder = {"UCX_CONFIG_DIR": str(directory.absolute())} if deployed.ucx else {}
        mca, _ = job_wide(recommendation)
        return mpirun(recommendation, stated(mca, deployed.environment_only), folder, folder)


def ucx_text(recommendation: Recommendation, deployed: DeployedSettings, use: str) -> str:
    """UCX's own file; without any variable where the recommendation sets none."""
    how = [f"use: {use}"] if use else []
    head = [
        *remarks(recommendation),
        "",
        *how,
        f"{'or ' * bool(how)}copy the lines below to ~/ucx.conf, for everybody to UCX's etc/ucx/ucx.conf;",
        "what the environment sets wins",
    ]
    return "\n".join([*commented(head), *(f"{n}={v}" for n, v in deployed.ucx.items())]) + "\n"


def _han_level(level: str, by_size: Mapping[int, list[Rule]]) -> list[str]:
    """The configurations of one level: the first one must be for 1 rank, its first row for 0 bytes.

    Inside nodes and between them the size of the communicator is that of the level, which a campaign does
    not know: one table, that of the largest communicator, holds for all. Message sizes are per rank or block.
    """
    starts = {1: max(by_size)}
    if level == "component":
        starts = table_starts(sorted(by_size))
        starts = {1: 0, **{start: owner for start, owner in starts.items() if (start, owner) != (2, 0)}}
    lines = [f"{len(starts)}  # sizes"]
    for start, owner in starts.items():
        rows: list[tuple[int, str]] = []
        for rule in by_size[owner] if owner else ():
            name = str(rule.choice.get(level, "han" if level == "component" else "tuned"))
            if name not in HAN_COMPONENTS:
                raise UserError(
                    f"coll_han knows no component {name!r}", f"it knows {', '.join(HAN_COMPONENTS)}"
                )
            if not rows or rows[-1][1] != name:
                rows.append((rule.min_bytes, name))
        rows = rows or [(0, "han")]
        lines += [f"{start}  # ranks and more", f"{len(rows)}  # rows"]
        lines += [f"{bound} {name}" for bound, name in rows]
    return lines
