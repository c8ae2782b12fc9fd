"""The question that scripts and module files ask before they set anything: are these the versions (step 12)?

Ids and defaults differ between versions, and users load what they like. One line of ``sh`` asks, whatever
language the file is in: ``mpirun`` says its own version; the UCX that it loads is looked for beside it and
among the libraries that its own name, and is known by the version that it holds as text. A UCX that is not
found is not judged.
"""

import re
import shlex
from dataclasses import dataclass

from autotune.recommend.recommendation import Recommendation

_UCX = (
    'lib=$(dirname "$(readlink -f "$(command -v mpirun)")")/../lib; '
    "pkg=$(ompi_info --parsable --path pkglibdir 2>/dev/null); ucp=; "
    'for f in "$lib"/libucp.so.0 "$lib"/openmpi/libucp.so.0; do [ ! -e "$f" ] || ucp=$f; done; '
    '[ -n "$ucp" ] || ucp=$(ldd "$lib"/openmpi/mca_pml_ucx.so "$lib"/libmpi.so "${pkg##*:}"/mca_pml_ucx.so '
    "2>/dev/null | sed -n 's/^.*libucp[.]so.* => \\(.*\\) (0x.*$/\\1/p' | head -n 1); "
    """[ -z "$ucp" ] || LC_ALL=C grep -aq '[^0-9.]{version}[^0-9.]' "$ucp" || exit 1; """
)


@dataclass(frozen=True, slots=True)
class Guard:
    """The measured version, and how a shell detects it."""

    openmpi: str  # Version of Open MPI.
    ucx: str  # Version of UCX; empty: nothing that is set is its.

    @property
    def versions(self) -> str:
        """In words."""
        return f"Open MPI {self.openmpi}" + (f" over UCX {self.ucx}" if self.ucx else "")

    @property
    def wrong(self) -> str:
        """Message for users of another version."""
        here = "the mpirun in PATH is another one or missing"
        return f"autotune: measured on {self.versions}, {here}: nothing is set"

    @property
    def command(self) -> str:
        """A command for any shell that ends well where it is."""
        mpi = f'case "$(mpirun --version 2>/dev/null) " in *"(Open MPI) {self.openmpi}"[!0-9A-Za-z.]*) ;; '
        ucx = _UCX.replace("{version}", self.ucx.replace(".", "[.]")) if self.ucx else ""
        return f"sh -c {shlex.quote(f'{mpi}*) exit 1 ;; esac; {ucx}exit 0')}"


def guard_of(recommendation: Recommendation) -> Guard | None:
    """The guard of what was measured on a real Open MPI; None: on something else."""
    source = recommendation.provenance
    found = re.match(r"Open MPI (\d+[\w.]*)", source.stack)
    over = re.search(r", UCX (\d+[\w.]*)", source.stack)
    uses = any(
        name.startswith("UCX_") or (name, value) == ("OMPI_MCA_pml", "ucx") for name, value in source.env
    )
    return Guard(found[1], over[1] if over and uses else "") if found else None
