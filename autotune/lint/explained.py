"""Find the line of a tuning file that selects the algorithm of a call, and say why that line applies.

Files are read as the libraries read them: rules of ``coll_tuned`` (classic and JSON), MPICH's selection
trees, Intel's and MPICH's variables, and files that plugins can read (UCC's scores). If parameter files and
scripts name further files, these are read too. Reading classic rules is tested against a real Open MPI
(``test_explain_confirmed.py``); reading other files follows source code and documentation.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath

from autotune.collectives import COLLECTIVES
from autotune.errors import TableError
from autotune.lint.files import environment_of, kind_of
from autotune.lint.finding import version_of
from autotune.lint.kinds import UNREAD
from autotune.lint.rules import rules_file
from autotune.lint.traps import traps
from autotune.stacks import classic_rules, coll_tuned, mpich_tree
from autotune.stacks.asked import CHOSEN, Answer, Asked
from autotune.stacks.intel_ranges import adjusted, adjustment_at
from autotune.stacks.json_lines import lines_in

_MCA = "OMPI_MCA_"
_NEWEST = (99,)
"""Release number above all real ones, for a release that reads every format that its version can read."""
_HAN, _TUNED = 35, 30
"""Default priorities of coll_han and coll_tuned in Open MPI 5 (``ompi_info``); coll_han's is 0 in 4.1."""
_JSON_NAMES = {name.replace("_", ""): name for name in COLLECTIVES if "_" in name}
"""Maps spellings of collectives in JSON rules, which have no underscores, to the names in this program."""

Read = Callable[[str], str | None]
"""Function that returns the text of the file with a given path; None if the file cannot be read."""
Fixed = Callable[[str, int, int], str]
"""Function that returns the algorithm that coll_tuned chooses without rules, for (collective, ranks, bytes);
empty if unknown."""


def explained(path: PurePath, text: str, call: Asked, mpi: str, read: Read, fixed: Fixed) -> Answer | None:
    """Return which algorithm a file selects for a call; None if the kind of the file is unknown.

    Args:
        path: Path of the file.
        text: Content of the file.
        call: The call: collective, number of ranks, message size and so on.
        mpi: One of ``STACKS``.
        read: Returns the text of a further file that this one names.
        fixed: Returns the algorithm that coll_tuned chooses if no rule applies.

    Raises:
        TableError: the content of the file does not fit its kind.
    """
    kind, version = kind_of(path, text), version_of(mpi)
    try:
        if '"collective=' in text and text.lstrip().startswith("{"):
            answer = mpich_tree.reached(str(path), text, call)
            answer.component = "MPICH, where no variable forces an algorithm and the device composes none"
            return answer
        if kind == "rules":
            return _placed(_rules(path, text, call, version), call, version, {}, fixed)
        if kind in traps():
            return traps()[kind].explained(path, text, call)
        if kind in UNREAD:
            return None
        return _variables(path, text, call, version, read, fixed)
    except ValueError as exc:
        raise TableError(f"{path}: {exc}", "lint says what is wrong with it") from exc


def _rules(path: PurePath, text: str, call: Asked, version: tuple[int, int]) -> Answer:
    """Return which algorithm a rules file selects for a call, if the file is in effect."""
    answer = Answer(call.collective)
    if call.collective not in coll_tuned.ALGORITHMS:
        answer.why.append(f"coll_tuned has no algorithms for {call.collective}")
        return answer
    wrong = rules_file(path, text, version, _NEWEST)
    if void := next(
        (
            finding
            for finding in wrong
            if classic_rules.IGNORED in finding.effect or "shifted" in finding.effect
        ),
        None,
    ):
        answer.why.append(f"{path}:{void.line}: {void.effect}")
        return answer
    if text.lstrip().startswith("{"):
        return _json(path, text, call)
    answer = classic_rules.looked_up(str(path), text, call, version)
    answer.why += [
        f"lint, line {finding.line}: {finding.effect}" for finding in wrong if finding.line == answer.line
    ]
    return answer


def _json(path: PurePath, text: str, call: Asked) -> Answer:
    """Return which algorithm JSON rules select for a call in Open MPI 6.

    Open MPI uses the first entry whose range contains the number of ranks, and in that entry the first rule
    whose range contains the message size.
    """
    document, lines = lines_in(text)
    answer = Answer(call.collective)
    threshold = coll_tuned.threshold_bytes(call.collective, call.nbytes, call.ranks)
    spellings = {_JSON_NAMES.get(name, name): name for name in document.get("collectives", {})}
    name = spellings.get(call.collective)
    places = {"any", "single-node" if call.nodes == 1 else "one-per-node" if call.nodes == call.ranks else ""}
    for i, entry in enumerate(document["collectives"][name] if name else ()):
        fits = (
            _within(entry, "comm_size", call.ranks) and entry.get("comm_rank_distribution", "any") in places
        )
        if not fits:
            continue
        at = lines["collectives", str(name), i]
        answer.why.append(f"{path}:{at}: the first entry that {call.ranks} ranks fit into")
        for j, rule in enumerate(entry["rules"]):
            if _within(rule, "msg_size", threshold):
                answer.line = lines["collectives", str(name), i, "rules", j]
                answer.algorithm = str(rule.get("alg", ""))
                answer.why.append(f"{path}:{answer.line}: the first rule that {threshold} bytes fit into")
                return answer
        break
    answer.why.append(
        f"{path}: nothing is left for {call.collective} of {threshold} bytes on {call.ranks} ranks"
    )
    return answer


def _within(entry: Mapping[str, object], quantity: str, value: int) -> bool:
    low, high = entry.get(f"{quantity}_min", 0), entry.get(f"{quantity}_max", "inf")
    return int(str(low)) <= value and (str(high).lower().startswith("inf") or value <= int(str(high)))


def _placed(
    answer: Answer, call: Asked, version: tuple[int, int], env: Mapping[str, str], fixed: Fixed
) -> Answer:
    """Add to an answer the component that makes the call and, if no rule applies, coll_tuned's own choice."""
    answer.component = "coll_tuned"
    han = float(env.get(f"{_MCA}coll_han_priority", _HAN if version >= (5, 0) else 0))
    tuned = float(env.get(f"{_MCA}coll_tuned_priority", _TUNED))
    if call.ranks == 1:
        answer.component, answer.algorithm = "coll_self", ""
        answer.why.append("a communicator of one rank is coll_self's: no rule is asked")
    elif call.nodes > 1 and call.collective in coll_tuned.HAN and han > tuned:
        answer.component = "coll_han"
        answer.why.append(
            f"on {call.nodes} nodes coll_han (priority {han:g}) is asked before coll_tuned ({tuned:g}): its "
            "calls inside of nodes and between them are looked up with their own ranks and sizes; "
            "coll_han_priority = 0 lets the rules decide"
        )
    elif not answer.algorithm and version < (6, 0):
        nbytes = call.total_bytes if call.collective == "reduce_scatter" else call.nbytes
        if algorithm := fixed(call.collective, call.ranks, nbytes):
            answer.why.append(f"coll_tuned's fixed rules of 5.0 take {algorithm}")
    return answer


def _variables(
    path: PurePath, text: str, call: Asked, version: tuple[int, int], read: Read, fixed: Fixed
) -> Answer:
    """Return which algorithm the settings in a parameter file or a script select for a call."""
    env = environment_of(path, text)
    answers = [*_mpich(path, text, call, env, read), *_others(path, text, call, env)]
    if answers:
        return answers[0]
    return _placed(_open_mpi(path, text, call, version, env, read), call, version, env, fixed)


def _mpich(path: PurePath, text: str, call: Asked, env: Mapping[str, str], read: Read) -> Iterator[Answer]:
    """Yield the algorithms that variables of Intel MPI and MPICH select for a call."""
    intel, forced = adjusted(call.collective), f"MPIR_CVAR_{call.collective.upper()}_INTRA_ALGORITHM"
    if value := env.get(intel):
        line = _line(text, intel)
        answer = adjustment_at(f"{path}:{line}", value, call)
        answer.line = line
        yield answer
    if (value := env.get(forced, "auto")) != "auto":
        line = _line(text, forced)
        why = [f"{path}:{line}: {forced} forces it for all sizes and communicators"]
        yield Answer(call.collective, value, line, "MPICH, unless the device composes the call", why)
    if tree_path := env.get(mpich_tree.FILE_VARIABLE):
        line, tree = _line(text, mpich_tree.FILE_VARIABLE), read(tree_path)
        answer = mpich_tree.reached(tree_path, tree, call) if tree else Answer(call.collective)
        answer.why.insert(
            0, f"{path}:{line}: the tree is {tree_path}{'' if tree else ', which cannot be read'}"
        )
        answer.line, answer.component = answer.line and line, "MPICH"
        yield answer


def _others(path: PurePath, text: str, call: Asked, env: Mapping[str, str]) -> Iterator[Answer]:
    """Yield the algorithms that variables of libraries with a plugin select for a call."""
    for trap in traps().values():
        variables = {name: value for name, value in env.items() if name.startswith(trap.prefixes or ("\0",))}
        if (
            variables
            and (answer := trap.explained(path, "".join(f"{n}={v}\n" for n, v in variables.items()), call))
            and answer.line
        ):
            answer.line = _line(text, list(variables)[answer.line - 1])
            yield answer


def _open_mpi(
    path: PurePath, text: str, call: Asked, version: tuple[int, int], env: Mapping[str, str], read: Read
) -> Answer:
    """Return which algorithm Open MPI's parameters select for a call.

    A rules file takes precedence over a forced algorithm; both need ``coll_tuned_use_dynamic_rules``.
    """
    answer = Answer(call.collective)
    switch, forced = "coll_tuned_use_dynamic_rules", f"coll_tuned_{call.collective}_algorithm"
    pointer = "coll_tuned_dynamic_rules_filename"
    on = env.get(_MCA + switch, "0").lower() in ("1", "true", "t", "yes", "enabled")
    rules_path, algorithm = env.get(_MCA + pointer, ""), env.get(_MCA + forced, "")
    if not (rules_path or algorithm):
        answer.why.append(f"{path} sets nothing for {call.collective}")
        return answer
    if not on:
        setting = forced if algorithm else pointer
        answer.why.append(f"{path}:{_line(text, setting)}: {setting} is ignored without {switch} = 1")
        return answer
    if rules_path:
        rules = read(rules_path)
        if rules is None:
            answer.why.append(f"{path}:{_line(text, pointer)}: {rules_path} cannot be read here")
        else:
            answer = _rules(PurePath(rules_path), rules, call, version)
            answer.why.insert(0, f"{path}:{_line(text, pointer)}: the rules are {rules_path}")
    if not answer.algorithm and algorithm not in ("", "0", "ignore"):
        names = coll_tuned.algorithms(call.collective, version)
        number = coll_tuned.algorithm_id(call.collective, algorithm)
        answer.algorithm, answer.line = f"{names[number]} ({number})", _line(text, forced)
        answer.why.append(f"{path}:{answer.line}: {forced} forces it for all sizes and communicators")
    return answer


def _line(text: str, name: str) -> int:
    """Return the number of the last line that names a variable and is no comment; 0 if there is none."""
    lines = enumerate(text.splitlines(), 1)
    return max(
        (n for n, line in lines if re.search(rf"\b(?:{_MCA})?{name}\b", line.partition("#")[0])), default=0
    )


def concerned(
    path: PurePath, text: str, call: Callable[[str], Asked], mpi: str, read: Read, fixed: Fixed
) -> list[Answer]:
    """Return an answer for each collective whose algorithm is selected by a file.

    ``call`` returns the call of a collective by name; the other arguments are those of ``explained``.
    """
    answers = (explained(path, text, call(name), mpi, read, fixed) for name in CHOSEN)
    return [answer for answer in answers if answer is not None and answer.line]
