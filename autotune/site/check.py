"""Check that a site's exported files have the intended effect, with the number of ranks of each job."""

import hashlib
import json
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autotune.campaign.bench import Bench
from autotune.campaign.observing import measurement_of
from autotune.errors import ExitCode, StackError, UserError
from autotune.exporters.export_check import PROOF_FILE, check_export
from autotune.exporters.files import sets_nothing
from autotune.exporters.writing import write_files
from autotune.recommend.recommendation import Recommendation
from autotune.resources import user_text
from autotune.scenario import Scenario
from autotune.scenario.whole_site import Job

READ_BACK = "read_back.json"
"""File beside the exported files, with their hash and the result of the check for each number of ranks."""


def read_back(
    recommendation: Recommendation,
    formats: Sequence[str],
    folder: Path,
    jobs: Collection[Job],
    place_of: Callable[[Job], tuple[Scenario, Bench]],
) -> int:
    """Launch with the exported files on the ranks of each job, and check that the library applies them.

    A number of ranks for which the same files were checked before is not launched again. ``place_of`` returns
    the scenario of a job and the means to launch it.

    Returns:
        The exit code: ``FINDING`` if the files do not have the intended effect, otherwise ``WELL``.
    """
    digest, results = _digest(folder), dict[str, str]()
    stored = _stored_results(folder / READ_BACK)
    if stored.get("files") == digest and isinstance(stored.get("said"), dict):
        results = {str(ranks): str(text) for ranks, text in stored["said"].items()}
    for job in jobs if formats else ():
        ranks = job[0] * job[1]
        if str(ranks) in results:
            continue
        try:
            scenario, place = place_of(job)
            if place.stack is None:  # the machine is simulated, so that files have no effect on it
                continue
            measurement = measurement_of(scenario, place.placement.ranks)
            with_ranks = replace(recommendation, provenance=replace(recommendation.provenance, ranks=ranks))
            proof = check_export(formats, with_ranks, folder, place.observer, measurement, place.whole)
        except StackError as exc:
            sys.stderr.write(f"{ranks} ranks: not read back: {exc}\n")
            continue
        if proof is None and not sets_nothing(recommendation):  # launches cannot apply these formats
            continue
        text = str(proof or "nothing is set: the library decides")
        sys.stdout.write(f"{ranks} ranks: {text}\n")
        if proof is not None and proof.refutes:
            return int(ExitCode.FINDING)  # the proof is kept beside the files that it refutes
        if proof is None or proof.holds:
            results[str(ranks)] = text
            write_files({folder / READ_BACK: json.dumps({"files": digest, "said": results}, indent=1) + "\n"})
    return int(ExitCode.WELL)


def _digest(folder: Path) -> str:
    """Return the SHA-256 hash over the names and texts of all exported files."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    files = [path for path in files if path.name not in (PROOF_FILE, READ_BACK)]
    text = "".join(f"{path.name}\n{user_text(path, lenient=True)}" for path in files)
    return hashlib.sha256(text.encode()).hexdigest()


def _stored_results(path: Path) -> dict[str, Any]:
    """Return the stored results of an earlier check; empty if there are none, or if they cannot be read."""
    try:
        document = json.loads(user_text(path))
    except (UserError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
