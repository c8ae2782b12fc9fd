"""Files are written by the modules that follow no links; every other writer is named here with its reason."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

OPENERS = {
    "exporters.writing": "files for the user, all of them or none",
    "history.folder": "opens directories name by name, without following links",
    "history.journal": "appends to the journal, which is opened without following a link",
}
"""Modules by which all others write."""

FRESH = "into a folder that was just made, empty, for the user alone"
OWN = "into a folder of the user's own that nobody else can have written"
EXCEPTIONS = {
    "campaign.directory": "renames the campaign that the user named, which moves no link's target",
    "campaign.entrants": FRESH,
    "campaign.observing": FRESH,
    "campaign.sealing": "makes a new file in the folder of the user's own key (O_EXCL)",
    "guard.verbs": "makes the folder that the user named",
    "guard.facts": FRESH,
    "guard.place": f"{FRESH}; its lock is opened without following a link",
    "commands.kept_status": "removes a link of the name that it writes, not what the link leads to",
    "commands.repair": "makes a new file (O_EXCL), and removes a folder that was just made",
    "application.verbs.run": FRESH,
    "application.verbs.verify": f"{FRESH}, new files (O_EXCL)",
    "commands.terminal": "opens /dev/null",
    "cli": "opens /dev/null",
    "exporters.user_files": "removes a folder that is empty; a link is none",
    "guard.kept": "appends to a file that is opened without following a link",
    "probe.compiling": OWN,
    "probe.launch": FRESH,
    "probe.own_files": "makes the folders of which this is true, and refuses links",
    "probe.protocol": FRESH,
    "probe.meeting": "a file of a name nobody can have taken (a token), opened without following a link",
    "probe.turns": "removes that file",
    "resources": "opens to read: its flags are those of reading",
    "stacks.application": "makes the folder of a log, which is opened without following a link",
    "views.frames": "writes into memory",
    "views.report.paper": "draws into memory",
    "launchers._command": "removes the earlier answer of the user's own program",
    "launchers._guard": "removes what a launch left in shared memory, by names of its own processes",
    "launchers._health": FRESH,
    "launchers._mpirun": FRESH,
    "launchers._replay": FRESH,
    "launchers._slurm_batch": "writes a file of a name nobody can have taken (mkstemp), and renames it",
    "launchers._slurm_trial": FRESH,
}
"""Module → why what it writes can be no link's target."""

_METHODS = {
    *("write_text", "write_bytes", "touch", "mkdir", "unlink", "rmdir", "rename", "symlink_to"),
    "hardlink_to",
    *("chmod", "lchmod", "savefig", "write_html", "write_image", "to_parquet"),
}
_FUNCTIONS = {
    *("os.replace", "os.rename", "os.remove", "os.unlink", "os.mkdir", "os.makedirs", "os.rmdir", "os.link"),
    *("os.symlink", "os.chmod", "os.chown", "os.truncate", "os.removedirs", "os.renames"),
    *(f"shutil.{name}" for name in ("rmtree", "copy", "copy2", "copyfile", "copytree", "move")),
    *("rmtree", "copyfile", "mkstemp", "tempfile.mkstemp", "tempfile.NamedTemporaryFile"),
}
_WRITING_FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND", "O_TRUNC"}


def writes(call: ast.Call) -> bool:
    """Whether a call changes the file system by a name."""
    called = ast.unparse(call.func)
    last = called.rpartition(".")[2]
    words = [
        word.value
        for word in [*call.args, *(k.value for k in call.keywords)]
        if isinstance(word, ast.Constant)
    ]
    if called == "os.open":
        flags = {node.attr for node in ast.walk(call) if isinstance(node, ast.Attribute)}
        names = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)} - {"os"}
        return bool(flags & _WRITING_FLAGS or "flags" in names)
    if last == "open":
        return any(
            isinstance(word, str) and set(word) <= set("rwaxbt+") and set(word) & set("wax+")
            for word in words
        )
    if (
        last == "replace" and called != "os.replace"
    ):  # of a path: a text's and a dataclass's have two words or keywords
        return isinstance(call.func, ast.Attribute) and len(call.args) == 1 and not call.keywords
    return called in _FUNCTIONS or (isinstance(call.func, ast.Attribute) and last in _METHODS)


def modules():
    """Name of each module, without the package's → its path."""
    for top, folder in (
        ("", "autotune"),
        ("launchers.", "launchers/hydra_plugins/autotune"),
        ("", "plugins"),
    ):
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            yield top + ".".join(part for part in parts if part != "__init__"), path


WRITERS = {
    name: [f"{node.lineno}: {ast.unparse(node)[:80]}" for node in ast.walk(ast.parse(path.read_text())) if
           isinstance(node, ast.Call) and writes(node)]
    for name, path in modules()
}  # fmt: skip


def test_every_writer_follows_no_link_or_has_its_reason():
    raw = {name: calls for name, calls in WRITERS.items() if calls and name not in OPENERS}
    assert {name: raw[name] for name in raw.keys() - EXCEPTIONS.keys()} == {}
    assert EXCEPTIONS.keys() - raw.keys() == set()  # a reason that nothing needs hides the next writer


@pytest.mark.parametrize(
    "line",
    [
        *("open(p, 'w')", "p.open('ab')", "p.write_text('')", "os.open(p, os.O_RDWR)", "os.replace(a, b)"),
        *("p.replace(q)", "shutil.rmtree(p)", "p.unlink()", "open(p, mode='x')", "os.open(p, flags)"),
    ],
)
def test_a_writer_is_seen(line):
    assert writes(ast.parse(line).body[0].value)


@pytest.mark.parametrize(
    "line", ["open(p)", "p.open('rb')", "'a'.replace('b', 'c')", "replace(a, b=1)", "os.open(p, os.O_RDONLY)"]
)
def test_a_reader_is_none(line):
    assert not writes(ast.parse(line).body[0].value)
