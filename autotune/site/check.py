"""A check that the files of a site have the effect that they promise, on the ranks of each measured job."""

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
"""File beside the exported files with their hash, and the result of the check for each number of ranks."""


def read_back(
    recommendation: Recommendation,
    formats: Sequence[str],
    folder: Path,
    jobs: Collection[Job],
    place_of: Callable[[Job], tuple[Scenario, Bench]],
) -> int:
    """Launch under the exported files on the ranks of each job, and check that they have their effect.

    A number of ranks for which the same files were checked before is left out.

    Args:
        recommendation: The recommendation that was exported.
        formats: Names of the formats.
        folder: Directory of the files.
        jobs: The jobs whose numbers of ranks are checked.
        place_of: Returns the scenario of a job and its place of launching.

    Returns:
        The exit code: a finding if the files do not have the effect that they promise.

    Raises:
        StorageError: the disk is full or read-only.
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
            if place.stack is None:  # the machine is a model, on which files have no effect
                continue
            measurement = measurement_of(scenario, place.placement.ranks)
            with_ranks = replace(recommendation, provenance=replace(recommendation.provenance, ranks=ranks))
            proof = check_export(formats, with_ranks, folder, place.observer, measurement, place.whole)
        except StackError as exc:
            sys.stderr.write(f"{ranks} ranks: not read back: {exc}\n")
            continue
        if proof is None and not sets_nothing(recommendation):  # no launcher applies these formats
            continue
        text = str(proof or "nothing is set: the library decides")
        sys.stdout.write(f"{ranks} ranks: {text}\n")
        if proof is not None and proof.refutes:
            return int(ExitCode.FINDING)  # the proof that refutes them stays beside the files
        if proof is None or proof.holds:
            results[str(ranks)] = text
            write_files({folder / READ_BACK: json.dumps({"files": digest, "said": results}, indent=1) + "\n"})
    return int(ExitCode.WELL)


def _digest(folder: Path) -> str:
    """Return the SHA-256 hash of all exported files, names and texts."""
    excluded = (PROOF_FILE, READ_BACK)
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name not in excluded)
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.name}\n{user_text(path, lenient=True)}".encode())
    return digest.hexdigest()


def _stored_results(path: Path) -> dict[str, Any]:
    """Return the document of a former check; empty if there is none that can be read."""
    try:
        document = json.loads(user_text(path))
    except (UserError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
