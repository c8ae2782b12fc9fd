"""Recommendations as files that MPI stacks read, one module for each family of formats (step 12 of the flow).

An exporter turns a recommendation into text and writes nothing; ``merging`` joins several campaigns first.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from autotune.errors import UserError, allowed

if TYPE_CHECKING:
    from autotune.campaign.ports import Exporter

FORMATS = {
    "openmpi_mca": "openmpi:OpenMpiMca",
    "openmpi_mca_list": "openmpi:OpenMpiMcaList",
    "coll_tuned": "openmpi:CollTuned",
    "coll_tuned_json": "openmpi_files:CollTunedJson",
    "han_rules": "openmpi_files:HanRules",
    "tune": "openmpi_files:Tune",
    "ucx_conf": "openmpi_files:UcxConf",
    "env_sh": "environment:ShellScript",
    "env_csh": "environment:CShellScript",
    "slurm": "environment:SlurmSnippet",
    "lmod": "environment:LmodModule",
    "modulefile": "environment:ModuleFile",
    "mpich_cvars": "mpich:MpichCvars",
    "mpich_json": "mpich:MpichSelection",
    "intel": "variables:IntelMpi",
    "mvapich2": "variables:Mvapich2",
    "mvapich3": "variables:Mvapich3",
    "cray": "cray:CrayMpich",
    "ucc_conf": "ucc:UccConf",
    "nccl": "nccl:NcclTuner",
    "json": "document:JsonDocument",
    "summary": "document:Summary",
}
"""Every format with the module and the class that writes it."""


def exporter(name: str) -> "Exporter":
    """The exporter of a format.

    Raises:
        UserError: no such format.
    """
    if name not in FORMATS:
        raise UserError(f"unknown export format {name!r}", allowed(name, FORMATS))
    module, _, cls = FORMATS[name].partition(":")
    made: Exporter = getattr(import_module(f"autotune.exporters.{module}"), cls)()
    return made


def listing() -> tuple[tuple[str, str], ...]:
    """Name and summary of every format, in order."""
    return tuple((name, exporter(name).summary) for name in FORMATS)
