"""Export recommendations as files that MPIs read; each family of formats has a module (step 12 of the flow).

An exporter turns a recommendation into text and writes no file; ``merging`` first joins the recommendations
of several campaigns. Formats for libraries that were never run here, and formats of other Python
distributions, are plugins: classes that an installed distribution names in the group of entry points
``autotune.exporters``.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING

from autotune.errors import UserError, allowed
from autotune.resources.plugins import offers, plugged

if TYPE_CHECKING:
    from autotune.campaign.ports import Exporter

GROUP = "autotune.exporters"  # Group of entry points of plugins; each names a format and its class.

FORMATS = {
    "openmpi_mca": "openmpi:OpenMpiMca",
    "openmpi_mca_list": "openmpi:OpenMpiMcaList",
    "coll_tuned": "openmpi:CollTuned",
    "han_rules": "openmpi:HanRules",
    "tune": "openmpi:Tune",
    "ucx_conf": "openmpi:UcxConf",
    "env_sh": "environment:ShellScript",
    "env_csh": "environment:CShellScript",
    "slurm": "environment:SlurmSnippet",
    "lmod": "environment:LmodModule",
    "modulefile": "environment:ModuleFile",
    "mpich_cvars": "mpich:MpichCvars",
    "mpich_json": "mpich:MpichSelection",
    "intel": "mpich:IntelMpi",
    "json": "document:JsonDocument",
    "summary": "document:Summary",
}
"""Maps every format of this package to ``module:class`` of its exporter."""


def exporter(name: str) -> "Exporter":
    """Return the exporter of a format.

    Raises:
        UserError: There is no such format, or it is a plugin that cannot be used.
    """
    if name in FORMATS:
        module, _, cls = FORMATS[name].partition(":")
        built: Exporter = getattr(import_module(f"{__name__}.{module}"), cls)()
        return built
    plugins = offers(GROUP, FORMATS)
    if name not in plugins.found:
        if name in plugins.refused:
            raise UserError(f"export format {plugins.refused[name]}", "uninstall what is not wanted")
        raise UserError(f"unknown export format {name!r}", allowed(name, [*FORMATS, *plugins.found]))
    plugin: Exporter = plugged(plugins.found[name], ("summary", "export", "use"), export=_by_plain_name)
    return plugin


def listing() -> Iterator[tuple[str, str]]:
    """Yield the name and summary of every format, then the name of each refused plugin and the reason."""
    plugins = offers(GROUP, FORMATS)
    for name in (*FORMATS, *plugins.found):
        try:
            yield name, exporter(name).summary
        except UserError as exc:
            yield name, f"cannot be used: {exc.message}"
    for name, reason in plugins.refused.items():
        yield name, f"left out: {reason}"


def _by_plain_name(files: Mapping[str, str]) -> Mapping[str, str]:
    """Return the files of a plugin, after checking that each is directly in the directory of the export.

    Raises:
        TypeError: A file's name contains a directory, or its content is not a text.
    """
    for name, text in files.items():
        if PurePath(name).name != name or not isinstance(text, str):
            raise TypeError(f"{name!r} is no plain name of a file, or what it holds is no text")
    return files
