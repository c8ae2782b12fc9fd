"""``conf=application``: make a scenario (the calls that a campaign tunes) from an application's recording.

The scenario covers the calls whose time tuning could reduce. For collectives between several ranks this time
excludes the waiting for late ranks; for point-to-point messages and one-sided operations it includes waiting,
which cannot be separated. Collectives (and patterns of messages), communicator sizes and message sizes are
added in descending order of their time, until they contain most of the time; neighbouring message sizes are
merged into one.
"""

import math
import re
import shutil
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from autotune.application.diagnosis import Advice, diagnose
from autotune.application.diagnosis_text import sentence as diagnosis
from autotune.application.diagnosis_text import unlike_text
from autotune.application.documents import kept_floor, read_calls
from autotune.application.reach import Ends, predicted, savings
from autotune.application.recording import Recording, tunable
from autotune.campaign.spec import CampaignSpec
from autotune.errors import ScenarioError, TableError
from autotune.recommend.other_calls import slower
from autotune.recommend.recommendation import Checked, Recommendation
from autotune.space.obeyed import obeyed_by
from autotune.stacks.application import is_launcher

K = TypeVar("K", bound=Hashable)

_ENOUGH = 0.97  # Collectives, or sizes, are added until they contain this share of the recorded time.
_MOST = {"collectives": 6, "communicators": 3, "sizes": 8}  # Largest numbers in a scenario.
_ALIKE = 1.5  # Message sizes up to this factor above the smallest of a group are merged into one.
_PLACED = {
    "bind-to": ("OMPI_MCA_hwloc_base_binding_policy", "PRTE_MCA_hwloc_default_binding_policy"),
    "map-by": ("OMPI_MCA_rmaps_base_mapping_policy", "PRTE_MCA_rmaps_default_mapping_policy"),
}
"""Maps an option of Open MPI's launcher to two environment variables with the same effect: one for versions
before Open MPI 5, one for version 5 and later (prterun(1))."""
_RULES = ("OMPI_MCA_coll_tuned_use_dynamic_rules", "OMPI_MCA_coll_tuned_dynamic_rules_filename")
"""Environment variables that make Open MPI read a file of rules."""
_ELEMENT = 4  # Bytes of one element of a reduction: message sizes are rounded to multiples of it.


def of_recording(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scenario's configuration, with keys that the user left open filled in from a recording.

    Args:
        document: The configuration as the user composed it; its key ``calls`` names the recording.

    Raises:
        ScenarioError: ``calls`` names no recording, tuning cannot help the recorded run, none of its calls
            could be tuned, or the run was started by another launcher than the user's.
        TableError: the recording cannot be read.
    """
    filled = {key: value for key, value in document.items() if key != "calls"}
    if document["calls"] in (None, "???"):
        raise ScenarioError(
            "calls: what the application calls is not given",
            "autotune record -- mpirun … ./app, then conf=application calls=calls.json",
        )
    path = Path(str(document["calls"]))
    if path.suffix in (".otf2", ".cubex"):
        raise ScenarioError(
            f"calls={path} is of another tool, no recording",
            f"make one of it: autotune record --trace {path}, then calls=calls.json",
        )
    recorded = read_calls(path)
    tune_anyway = filled.pop("anyway", False)
    if not tune_anyway and (diagnosed := diagnose(recorded, kept_floor(path))).verdict is Advice.LEAVE:
        raise ScenarioError(
            f"calls={path}: {diagnosis(diagnosed, str(path))}", "--anyway tunes it all the same"
        )
    calls = [call for call in tunable(recorded) if call.busy_s > 0]
    if not calls and not all(filled.get(key) for key in ("collective", "sizes")):
        names = {f"{c.collective} ({c.kind})" for c in recorded.calls} | {c.operation for c in recorded.other}
        raise ScenarioError(
            f"calls={path}: nothing that could be tuned: it calls {', '.join(sorted(names)) or 'nothing'}",
            "tuned are collectives between several ranks, messages and one-sided operations",
        )
    collectives = _largest(((c.name, c.busy_s) for c in calls), _MOST["collectives"])
    calls = [call for call in calls if call.name in collectives]
    seconds = ((c.comm_size or recorded.ranks, c.busy_s) for c in calls)
    comm_sizes = sorted(_largest(seconds, _MOST["communicators"]))
    cluster, mpi, objective = (dict(filled.get(name) or {}) for name in ("cluster", "mpi", "objective"))
    _fill(cluster, nodes=recorded.nodes, comm_sizes=comm_sizes)
    if cluster.get("ppn") is None:
        _fill(cluster, ranks=recorded.ranks)
    if mpi.get("mpirun") is None and recorded.command and is_launcher(recorded.command[0]):
        mpi["mpirun"] = _own_launcher(path, recorded.command[0])
    if env := baseline(recorded):
        mpi["env"] = {**env, **(mpi.get("env") or {})}
    _fill(objective, weights=str(path))
    filled |= {"cluster": cluster, "mpi": mpi, "objective": objective}
    _fill(
        filled,
        collective=list(collectives),
        sizes=sizes_of_calls((c.message_bytes, c.busy_s) for c in calls if c.name != "barrier"),
    )
    return filled


def baseline(recorded: Recording) -> dict[str, str]:
    """Return the MPI settings of the recorded run, mapping options included, as environment variables.

    With these variables, the campaign's default is the setting of the recorded run. Variables that make a
    library start or load something are left out, because anybody may have written the recording.
    """
    started = recorded.started
    if started is None:
        return {}
    env = {name: value for name, value in started.environment.items() if not obeyed_by(name)}
    version = _version(recorded)
    for option, *words in started.options if version else ():
        if option in _PLACED and words:
            env[_PLACED[option][version >= 5]] = words[0]
    return env


def _version(recorded: Recording) -> int:
    """Return the major version of Open MPI; 0 for another library."""
    version = re.match(r"Open MPI v(\d+)", recorded.library)
    return int(version[1]) if version else 0


def overriding(recorded: Recording, recommendation: Recommendation) -> dict[str, str]:
    """Return the variables of a run that override different values in a recommendation's files."""
    run_env = recorded.started.environment if recorded.started else {}
    file_env: dict[str, str | None] = dict(recommendation.provenance.env)
    ruled = {rule.collective for rule in recommendation.rules if rule.sets}
    if ruled:
        file_env |= dict.fromkeys(_RULES)
    if _version(recorded) >= 5:  # Since version 5 a forced algorithm takes precedence over rules.
        file_env |= {f"OMPI_MCA_coll_tuned_{name}_algorithm": "0" for name in ruled}
    return {name: run_env[name] for name, value in file_env.items() if run_env.get(name, value) != value}


def _fill(section: dict[str, Any], **values: Any) -> None:
    """Set those values of a configuration's section that are missing or None in it."""
    section |= {key: value for key, value in values.items() if section.get(key) is None}


def _own_launcher(recording: Path, word: str) -> str:
    """Return the launcher that a recording names; another launcher than the one in the PATH is an error.

    The launcher is checked because anybody may have written the recording.
    """
    path_of_shell = shutil.which(Path(word).name)
    if "/" not in word or (path_of_shell and Path(path_of_shell).resolve() == Path(word).resolve()):
        return word
    raise ScenarioError(
        f"calls={recording} was recorded with {word}, which is not the {Path(word).name} of your PATH",
        f"mpi.mpirun={word} takes it all the same, mpi.mpirun={Path(word).name} what your PATH has",
    )


def worth_text(
    about: CampaignSpec, recommendation: Recommendation | None, harmless: Recommendation | None = None
) -> str:
    """Return a sentence on the time that a recommendation saves in the recorded run that it was tuned for.

    The text is empty where the campaign was not made for a recorded run. Calls of the run that were not
    tuned, and that the setting may make slower, are included with their recorded time. ``harmless`` is the
    best setting that makes no other call slower, which may save more.
    """
    path = Path(about.scenario.objective.weights or "")
    if path.suffix != ".json" or recommendation is None or not recommendation.gains:
        return ""
    try:
        recorded = read_calls(path)
        text = sentence(recorded, recommendation)
        if harmless is not None and slower(recommendation.others):
            harmless_savings = savings(recorded, harmless.effects)
            saved_s = predicted(harmless_savings.seconds, harmless_savings.draw_s)[0]
            text += f"; the best setting that slows no other call saves {saved_s:.3g} s (--choice harmless)"
        return text
    except TableError as exc:
        return f"what it is worth to the application cannot be said: {exc.message}"


def predicted_share(about: CampaignSpec, recommendation: Recommendation) -> tuple[Ends, int, int] | None:
    """Return the share of a run's time that the exported files save, and the numbers of runs and of ranks.

    None means that the campaign was not made for a recording, or that the recording's file is missing.
    """
    path = Path(about.scenario.objective.weights or "")
    if path.suffix != ".json" or not path.is_file():
        return None
    recorded = read_calls(path)
    saved = savings(recorded, recommendation.effects)
    return predicted(saved.shares, saved.draw_s / recorded.run_s), len(saved.shares), recorded.ranks


def sentence(recorded: Recording, recommendation: Recommendation) -> str:
    """Return a summary of a recorded run: time in collectives, waiting, and the time that files save."""
    possible = savings(recorded, recommendation.effects)
    saved, low, high = predicted(possible.seconds, possible.draw_s)
    verified = recommendation.provenance.checked is Checked.HOLDS
    files = "the verified files" if verified else "the files, which are not verified,"
    save = "save" if low > 0 else "may save" if high > 0 else "do not save:"
    waiting_text = f"{recorded.waiting_s:.2g} s of them waiting"
    if not recorded.waiting_known:
        waiting_text = "waiting, which no files save, not separated"
    runs = f"{len(possible.seconds)} runs"
    if not recorded.runs:
        runs = "without the spread between runs: record --runs 5 measures it"
    notes = [unlike_text(calls.collective, times) for calls, times in possible.unlike[:1]]
    if overrides := overriding(recorded, recommendation):
        words = ", ".join(f"{name}={value}" for name, value in overrides.items())
        notes.append(f"the run was started with {words}, which override the files: leave these out")
    layer = dict(recommendation.provenance.env).get("OMPI_MCA_pml")
    if layer and layer != baseline(recorded).get("OMPI_MCA_pml"):
        notes.append(
            f"pml={layer} may also change what memory of the program's own costs, which no call shows: "
            "verify --app measures it"
        )
    summary = (
        f"of {recorded.run_s:.3g} s of your run {recorded.collectives_s:.3g} s are in collectives, "
        f"{waiting_text}{_beside_collectives(recorded, recommendation)}; {files} {save} {saved:.3g} s "
        f"({low:.2g} … {high:.2g}; {runs})"
    )
    return "; ".join([summary, *notes])


def _beside_collectives(recorded: Recording, recommendation: Recommendation) -> str:
    """Return a text on the time in calls that are no collectives; empty if no such calls were recorded."""
    if not recorded.other:
        return ""
    names = {gain.slot[0] for gain in recommendation.effects}
    covered_s = math.fsum(calls.own_s for calls in recorded.other if calls.pattern in names)
    uncovered_s: dict[str, float] = defaultdict(float)
    for calls in recorded.other:
        if calls.pattern not in names:
            uncovered_s[calls.family] += calls.own_s
    text = f", {covered_s:.2g} s in messages that were measured, waiting included"
    if kinds := ", ".join(sorted(name for name, seconds in uncovered_s.items() if seconds > 0)):
        text += f", {math.fsum(uncovered_s.values()):.2g} s in calls that were not covered ({kinds})"
    return text


def _largest(times: Iterable[tuple[K, float]], limit: int) -> list[K]:
    """Return the keys with the most time: enough for the share ``_ENOUGH`` of it, but at most ``limit``."""
    sums: dict[K, float] = defaultdict(float)
    for key, seconds in times:
        sums[key] += seconds
    keys: list[K] = []
    covered, total = 0.0, math.fsum(sums.values())
    for key in sorted(sums, key=lambda k: -sums[k])[:limit]:
        if covered < _ENOUGH * total:
            keys.append(key)
            covered += sums[key]
    return keys


def sizes_of_calls(calls: Iterable[tuple[float, float]]) -> list[int]:
    """Return the message sizes in bytes that contain most of the time, in ascending order.

    Neighbouring sizes are merged into their geometric mean, weighted by time.

    Args:
        calls: Message size in bytes and time of each kind of call; the unit of time is arbitrary.
    """
    groups: dict[float, list[tuple[float, float]]] = {}
    start = -1.0
    for size, seconds in sorted(calls):
        start = size if start < 0 or size > _ALIKE * start else start
        groups.setdefault(start, []).append((size, seconds))
    sums = {start: math.fsum(seconds for _, seconds in group) for start, group in groups.items()}
    sizes: set[int] = set()
    for start in _largest(sums.items(), _MOST["sizes"]):
        mean = math.fsum(seconds * math.log(max(size, 1.0)) for size, seconds in groups[start]) / sums[start]
        sizes.add(max(_ELEMENT, _ELEMENT * round(math.exp(mean) / _ELEMENT)))
    return sorted(sizes) or [0]
