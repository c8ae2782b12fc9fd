"""Variables of MVAPICH2 and of MVAPICH 3 and later: one algorithm for each collective."""

from collections.abc import Mapping
from pathlib import Path

from autotune.errors import UserError
from autotune.exporters.origin import UNTRIED
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
from autotune.stacks.tables import tables


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
