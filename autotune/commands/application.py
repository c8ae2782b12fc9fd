"""``conf=application``: a scenario out of what an application was recorded to call (step 1 of the flow).

What counts is time that tuning could touch: of collectives between several ranks without waiting, of messages
and one-sided operations with it. Of it the collectives and patterns, communicator sizes and message sizes are
taken, largest first, until they hold most of it; neighbouring sizes become one.
"""

import math
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from autotune.campaign.description import Description
from autotune.commands.floors import kept_floor
from autotune.errors import ScenarioError, TableError
from autotune.importers.recording import Recording, read_recording
from autotune.importers.tunable import TunableCalls, tunable
from autotune.recommend.diagnosis import Advice, diagnose
from autotune.recommend.predicted import predicted
from autotune.recommend.reach import Ends, savings
from autotune.recommend.recommendation import Checked, Recommendation
from autotune.resources import user_text
from autotune.space.obeyed import obeyed_by
from autotune.stacks.application import is_launcher
from autotune.views.diagnosis import sentence as diagnosis
from autotune.views.diagnosis import unlike_text

K = TypeVar("K", bound=Hashable)

_ENOUGH = 0.97  # Share of the time that the collectives, or the sizes, hold which are tuned.
_MOST = {"collectives": 6, "communicators": 3, "sizes": 8}
_ALIKE = 1.5  # Sizes within this factor are one.
_PLACED = {
    ("bind-to", False): "OMPI_MCA_hwloc_base_binding_policy",
    ("map-by", False): "OMPI_MCA_rmaps_base_mapping_policy",
    ("bind-to", True): "PRTE_MCA_hwloc_default_binding_policy",
    ("map-by", True): "PRTE_MCA_rmaps_default_mapping_policy",
}
"""(option of Open MPI's launcher, whether of version 5 on) → the variable that says the same (prterun(1))."""
_RULES = ("OMPI_MCA_coll_tuned_use_dynamic_rules", "OMPI_MCA_coll_tuned_dynamic_rules_filename")
_ELEMENT = 4  # Bytes that a reduction works on at once.


def of_recording(document: Mapping[str, Any]) -> dict[str, Any]:
    """A composed configuration with ``calls`` put in place of whatever it leaves open.

    Raises:
        ScenarioError: nothing in the recording could be tuned.
        TableError: it cannot be read.
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
    anyway = filled.pop("anyway", False)
    if not anyway and (found := diagnose(recorded, kept_floor(path))).verdict is Advice.LEAVE:
        raise ScenarioError(f"calls={path}: {diagnosis(found, str(path))}", "--anyway tunes it all the same")
    chosen = [one for one in tunable(recorded) if one.busy_s > 0]
    said = all(filled.get(key) for key in ("collective", "sizes"))
    if not chosen and not said:
        names = {f"{c.collective} ({c.kind})" for c in recorded.calls} | {c.operation for c in recorded.other}
        called = ", ".join(sorted(names)) or "nothing"
        raise ScenarioError(
            f"calls={path}: nothing that could be tuned: it calls {called}",
            "tuned are collectives between several ranks, messages and one-sided operations",
        )
    collectives = _largest(_sums(chosen, lambda c: c.name), _MOST["collectives"])
    chosen = [one for one in chosen if one.name in collectives]
    wanted = _sums(chosen, lambda c: c.comm_size or recorded.ranks)
    comm_sizes = sorted(_largest(wanted, _MOST["communicators"]))
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
        sizes=sizes_of_calls((c.message_bytes, c.busy_s) for c in chosen if c.name != "barrier"),
    )
    return filled


def baseline(recorded: Recording) -> dict[str, str]:
    """Variables under which a run was made: what was run is what is judged.

    None that starts or loads something: a recording is a file of anybody's.
    """
    started = recorded.started
    if started is None:
        return {}
    env = {name: value for name, value in started.environment.items() if not obeyed_by(name)}
    version = _version(recorded)
    for option, *words in started.options if version else ():
        variable = _PLACED.get((option, version >= 5))
        if variable and words:
            env[variable] = words[0]
    return env


def _version(recorded: Recording) -> int:
    """Major version of the Open MPI that a run was recorded with; 0: another library."""
    version = re.match(r"Open MPI v(\d+)", recorded.library)
    return int(version[1]) if version else 0


def overriding(recorded: Recording, recommendation: Recommendation) -> dict[str, str]:
    """Variables that a run was started with and files would set otherwise: they win over files."""
    said = recorded.started.environment if recorded.started else {}
    wanted: dict[str, str | None] = dict(recommendation.provenance.env)
    ruled = {rule.collective for rule in recommendation.rules if rule.sets}
    if ruled:
        wanted |= dict.fromkeys(_RULES)
    if _version(recorded) >= 5:  # From there on an algorithm that is forced comes before rules.
        wanted |= {f"OMPI_MCA_coll_tuned_{name}_algorithm": "0" for name in ruled}
    return {name: said[name] for name, value in wanted.items() if said.get(name, value) != value}


def _fill(section: dict[str, Any], **values: Any) -> None:
    """Add values to a section, where it leaves them open."""
    section |= {key: value for key, value in values.items() if section.get(key) is None}


def _own_launcher(recording: Path, word: str) -> str:
    """The launcher that a recording names, if it is the one that this user's shell would find by its name.

    A recording is a file of anybody's, and what it names would be run.
    """
    here = shutil.which(Path(word).name)
    if "/" not in word or (here and Path(here).resolve() == Path(word).resolve()):
        return word
    raise ScenarioError(
        f"calls={recording} was recorded with {word}, which is not the {Path(word).name} of your PATH",
        f"mpi.mpirun={word} takes it all the same, mpi.mpirun={Path(word).name} what your PATH has",
    )


def read_calls(path: Path) -> Recording:
    """The recording in a file.

    Raises:
        TableError: there is none.
    """
    return read_recording(user_text(path, hint="autotune record writes one"), str(path))


def worth_text(about: Description, recommendation: Recommendation | None) -> str:
    """The value of a campaign's recommendation to the run it was made for; empty: it was for none."""
    path = Path(about.scenario.objective.weights or "")
    if path.suffix != ".json" or recommendation is None or not recommendation.gains:
        return ""
    try:
        return sentence(read_calls(path), recommendation)
    except TableError as exc:
        return f"what it is worth to the application cannot be said: {exc.message}"


def predicted_share(about: Description, recommendation: Recommendation) -> tuple[Ends, int, int] | None:
    """The share of the recorded runs' time that the files save, how many runs, of how many ranks.

    None: nothing was recorded.
    """
    path = Path(about.scenario.objective.weights or "")
    if path.suffix != ".json" or not path.is_file():
        return None
    recorded = read_calls(path)
    found = savings(recorded, recommendation.gains)
    return predicted(found.shares, found.draw_s / recorded.run_s), len(found.shares), recorded.ranks


def sentence(recorded: Recording, recommendation: Recommendation) -> str:
    """Summary of a run: time in collectives, waiting in it, and the saving by the files."""
    found = savings(recorded, recommendation.gains)
    saved, low, high = predicted(found.seconds, found.draw_s)
    done = recommendation.provenance.checked is Checked.HOLDS
    files = "the verified files" if done else "the files, which are not verified,"
    waiting = f"{recorded.waiting_s:.2g} s of them waiting"
    if not recorded.waiting_known:
        waiting = "waiting, which no files save, not separated"
    runs = (
        f"; {len(found.seconds)} runs"
        if recorded.runs
        else "; without the spread between runs: record --runs 5 measures it"
    )
    notes = [unlike_text(one.collective, times) for one, times in found.unlike[:1]]
    if over := overriding(recorded, recommendation):
        words = ", ".join(f"{name}={value}" for name, value in over.items())
        notes.append(f"the run was started with {words}, which override the files: leave these out")
    layer = dict(recommendation.provenance.env).get("OMPI_MCA_pml")
    if layer and layer != baseline(recorded).get("OMPI_MCA_pml"):
        notes.append(
            f"pml={layer} may also change what memory of the program's own costs, which no call shows: "
            "verify --app measures it"
        )
    said = (
        f"of {recorded.run_s:.3g} s of your run {recorded.collectives_s:.3g} s are in collectives, "
        f"{waiting}{_beside_collectives(recorded, recommendation)}; {files} save {saved:.3g} s "
        f"({low:.2g} … {high:.2g}{runs})"
    )
    return "; ".join([said, *notes])


def _beside_collectives(recorded: Recording, recommendation: Recommendation) -> str:
    """Time in MPI beside collectives, and which of it is not covered; empty: nothing is known."""
    if not recorded.other:
        return ""
    names = {gain.slot[0] for gain in recommendation.gains}
    covered_s = math.fsum(one.own_s for one in recorded.other if one.pattern in names)
    others: dict[str, float] = defaultdict(float)
    for one in recorded.other:
        if one.pattern not in names:
            others[one.family] += one.own_s
    kinds = ", ".join(sorted(name for name, seconds in others.items() if seconds > 0))
    left = f", {math.fsum(others.values()):.2g} s in calls that were not covered ({kinds})" if kinds else ""
    return f", {covered_s:.2g} s in messages that were measured, waiting included{left}"


def _largest(sums: Mapping[K, float], most: int) -> list[K]:
    """The keys with the most time, until they hold enough of it."""
    kept: list[K] = []
    held, total = 0.0, math.fsum(sums.values())
    for key in sorted(sums, key=lambda k: -sums[k])[:most]:
        if held < _ENOUGH * total:
            kept.append(key)
            held += sums[key]
    return kept


def _sums(calls: Iterable[TunableCalls], by: Callable[[TunableCalls], K]) -> dict[K, float]:
    sums: dict[K, float] = defaultdict(float)
    for one in calls:
        sums[by(one)] += one.busy_s
    return sums


def sizes_of_calls(calls: Iterable[tuple[float, float]]) -> list[int]:
    """Message sizes where the time is, out of size and time; neighbours become one at their mean."""
    groups: dict[float, list[tuple[float, float]]] = {}
    start = -1.0
    for size, seconds in sorted(calls):
        if start < 0 or size > _ALIKE * start:
            start = size
        groups.setdefault(start, []).append((size, seconds))
    sums = {start: math.fsum(seconds for _, seconds in group) for start, group in groups.items()}
    kept: set[int] = set()
    for start in _largest(sums, _MOST["sizes"]):
        mean = math.fsum(seconds * math.log(max(size, 1.0)) for size, seconds in groups[start]) / sums[start]
        kept.add(max(_ELEMENT, _ELEMENT * round(math.exp(mean) / _ELEMENT)))
    return sorted(kept) or [0]
