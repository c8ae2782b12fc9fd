"""Variables of Intel MPI and MVAPICH that tell algorithms apart by size (step 12 of the flow)."""

from collections.abc import Mapping
from pathlib import Path

from autotune.errors import UserError
from autotune.exporters.export_check import Recipe
from autotune.exporters.launch_line import PROGRAM, sourced
from autotune.exporters.origin import UNTRIED
from autotune.exporters.script_check import by_script_recipe
from autotune.exporters.settings import (
    EVERYWHERE,
    by_script,
    check_family,
    everywhere,
    exports,
    one_algorithm,
)
from autotune.recommend.front import Recommendation
from autotune.stacks import mpich
from autotune.stacks.intel_ranges import adjustments
from autotune.stacks.tables import tables


class IntelMpi:
    """``I_MPI_ADJUST_*`` with ranges of message sizes, a script for each communicator size."""

    name = "intel"
    summary = (
        "intel-mpi-env.sh: I_MPI_ADJUST_* variables by message size, for one communicator size (Intel MPI)"
    )

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """A script for each communicator size with rules, named after it where there are several.

        Raises:
            UserError: an algorithm that Intel MPI has no id for, or sizes that are left to the library.
        """
        check_family(recommendation, "intelmpi")
        by_comm_size = adjustments(recommendation.rules)
        files: dict[str, str] = {}
        for comm_size, variables in sorted(by_comm_size.items()):
            name = f"intel-mpi-env-{comm_size}.sh" if len(by_comm_size) > 1 else "intel-mpi-env.sh"
            only = f"for communicators of {comm_size} ranks; Intel MPI obeys it in those of any size"
            files |= exports(recommendation, directory / name, variables, [only, EVERYWHERE])
        return files or exports(recommendation, directory / "intel-mpi-env.sh", {})

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By sourcing the script; of several the one for most ranks, whose number the line says."""
        names = list(self.export(recommendation, directory))
        path = directory / names[-1]
        if len(names) == 1:
            return by_script(path)
        ranks = path.stem.rpartition("-")[2]
        return sourced(path, f"mpiexec -n {ranks} {PROGRAM}")

    def recipe(self, recommendation: Recommendation, directory: Path, spoilt: Path) -> Recipe:
        """The script for most ranks, as each rank sees it."""
        return by_script_recipe(directory / list(self.export(recommendation, directory))[-1])


class Mvapich2:
    """``MV2_INTER_*_TUNING``: one algorithm for each collective, by its id."""

    name = "mvapich2"
    summary = (
        "mvapich2-env.sh: MV2_* variables, one algorithm id for each collective (MVAPICH2 2.x); never run"
    )

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The script.

        Raises:
            UserError: algorithms that differ by size, or are not ids.
        """
        check_family(recommendation, "mvapich")
        variables = {}
        for collective, by_size in tables(everywhere(recommendation)).items():
            number = one_algorithm(collective, by_size)
            if number and not number.isdecimal():
                raise UserError(
                    f"MVAPICH2 takes a number for {collective}, not {number!r}",
                    "MV2_INTER_*_TUNING forces an algorithm by its id",
                )
            if number:
                variables[f"MV2_INTER_{collective.upper()}_TUNING"] = number
        return exports(recommendation, directory / "mvapich2-env.sh", variables, [UNTRIED, EVERYWHERE])

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By sourcing the script."""
        return by_script(directory / "mvapich2-env.sh")


class Mvapich3:
    """``MVP_*_INTRA_ALGORITHM``: MVAPICH 3 is made from MPICH and adds algorithms named ``osu_*``."""

    name = "mvapich3"
    summary = "mvapich-env.sh: MVP_* variables, one algorithm each (MVAPICH 3, 4, Plus); never run"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The script.

        Raises:
            UserError: algorithms that differ by size, or that neither MPICH nor OSU knows.
        """
        check_family(recommendation, "mvapich")
        variables = {}
        for collective, by_size in tables(everywhere(recommendation)).items():
            name = one_algorithm(collective, by_size)
            if not name.startswith("osu_"):
                name = mpich.check(collective, name)
            variables[f"MVP_{collective.upper()}_INTRA_ALGORITHM"] = name
        return exports(recommendation, directory / "mvapich-env.sh", variables, [UNTRIED, EVERYWHERE])

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By sourcing the script."""
        return by_script(directory / "mvapich-env.sh")
