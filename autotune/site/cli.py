"""Make ``tune``, ``plan``, ``measure``, ``status``, ``report`` and exports work on whole sites."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.commands.companions import Companion

if TYPE_CHECKING:
    from autotune.campaign.bench import Compose
    from autotune.recommend.recommendation import Recommendation


class _Sites:
    """Implements the commands of the core for whole sites."""

    def tune(self, document: Mapping[str, Any], compose: "Compose", quiet: bool) -> int:
        from autotune.site.verb import tune_site

        return tune_site(document, compose, quiet)

    def plan(
        self,
        document: Mapping[str, Any],
        compose: "Compose",
        planned: list[tuple[float, float]],
        documents: list[dict[str, Any]] | None,
    ) -> int:
        from autotune.site.plan import plan_site

        return plan_site(document, compose, planned, documents)

    def measure(self, document: Mapping[str, Any], compose: "Compose") -> int:
        from autotune.site.plan import measure_site

        return measure_site(document, compose)

    def status(self, directory: Path, as_json: bool) -> None:
        from autotune.site.verb import site_status

        site_status(directory, as_json)

    def progress(self, directory: Path) -> tuple[str, bool]:
        from autotune.site.verb import site_progress

        return site_progress(directory)

    def report(self, directory: Path, out: Path | None) -> None:
        from autotune.site.verb import site_report

        site_report(directory, out)

    def recommendation(self, directory: Path) -> "Recommendation":
        from autotune.site.directory import read_site
        from autotune.site.files import recommendation_of

        return recommendation_of(read_site(directory))


companion = Companion(sites=_Sites())
