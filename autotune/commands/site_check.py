"""Whether the files of a site do what they say, at the ranks of each job that was measured."""

import hashlib
import json
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autotune.campaign.observing import measurement_of
from autotune.campaign.site import Site
from autotune.errors import ExitCode, StackError, UserError
from autotune.exporters.export_check import PROOF_FILE, check_export
from autotune.exporters.files import sets_nothing
from autotune.exporters.writing import write_files
from autotune.recommend.recommendation import Recommendation
from autotune.resources import user_text
from autotune.scenario import Scenario
from autotune.scenario.whole_site import Job

READ_BACK = "read_back.json"  # Beside the files: what was found at which ranks, and of which files.


def read_back(
    recommendation: Recommendation,
    formats: Sequence[str],
    folder: Path,
    jobs: Collection[Job],
    place_of: Callable[[Job], tuple[Scenario, Site]],
) -> int:
    """Launch under the files at the ranks of each job, but where these very files were seen to do there.

    Returns:
        The exit code: a finding where they do not do what they say.

    Raises:
        StorageError: the disk is full or read-only.
    """
    digest, said = _digest(folder), dict[str, str]()
    kept = _kept(folder / READ_BACK)
    if kept.get("files") == digest and isinstance(kept.get("said"), dict):
        said = {str(ranks): str(text) for ranks, text in kept["said"].items()}
    for job in jobs if formats else ():
        ranks = job[0] * job[1]
        if str(ranks) in said:
            continue
        try:
            scenario, place = place_of(job)
            if place.stack is None:  # a model: files have no effect
                continue
            measurement = measurement_of(scenario, place.placement.ranks)
            its = replace(recommendation, provenance=replace(recommendation.provenance, ranks=ranks))
            proof = check_export(formats, its, folder, place.observer, measurement, place.whole)
        except StackError as exc:
            sys.stderr.write(f"{ranks} ranks: not read back: {exc}\n")
            continue
        if proof is None and not sets_nothing(recommendation):  # nothing applies these formats
            continue
        text = str(proof or "nothing is set: the library decides")
        sys.stdout.write(f"{ranks} ranks: {text}\n")
        if proof is not None and proof.refutes:
            return int(ExitCode.FINDING)  # this proof stays beside the files
        if proof is None or proof.holds:
            said[str(ranks)] = text
            write_files({folder / READ_BACK: json.dumps({"files": digest, "said": said}, indent=1) + "\n"})
    return int(ExitCode.WELL)


def _digest(folder: Path) -> str:
    """The hash of all exported files."""
    own = (PROOF_FILE, READ_BACK)
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name not in own)
    found = hashlib.sha256()
    for path in files:
        found.update(f"{path.name}\n{user_text(path, lenient=True)}".encode())
    return found.hexdigest()


def _kept(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(user_text(path))
    except (UserError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
