"""Findings in each format, on standard input, and by code; SARIF by the official schema."""

import io
import json
import re
from pathlib import Path, PurePath
from urllib.parse import unquote, urlsplit

import jsonschema
import pytest

from autotune import __version__
from autotune.cli import main
from autotune.errors import StackError
from autotune.lint.codes import CODES
from autotune.lint.finding import Finding
from autotune.lint.output import FORMATS, Report, Unjudged
from autotune.lint.verbs import lint as verb
from tests.schemas import answer

DATA = Path(__file__).parents[2] / "data"
SCHEMA = json.loads((DATA / "sarif" / "sarif-schema-2.1.0.json").read_text("utf-8"))
HERE = PurePath("/srv/site")
ODD = "a, b: 100 %25\r\nand\tmore: 50%,"
"""Text with all characters that a workflow command escapes, and one that looks escaped."""
FINDINGS = (
    Finding(PurePath("etc/mca-params.conf"), 3, "MPI205", "quotes become part of it", "leave them out"),
    Finding(HERE / "a b,c:d%.sh", 7, "MPI301", ODD, ODD, sure=False),
    Finding(PurePath("/opt/ü.conf"), 0, "MPI205", "of the whole file", "mend it"),
    Finding(PurePath("../up.conf"), 1, "MPI106", "beside the folder", "sort it"),
)
UNJUDGED = (Unjudged(PurePath("env.csh"), 0, "is for csh"), Unjudged(HERE / "x.sh", 4, "A is not followed"))
REPORT = Report("openmpi5", 4, FINDINGS, 2, UNJUDGED, HERE, "https://site.example/docs/lint.md")


@pytest.fixture(autouse=True)
def _no_mpi(monkeypatch):
    """What is installed here decides nothing."""

    def nothing(**_):
        raise StackError("no MPI")

    monkeypatch.setattr(verb, "find", nothing)
    monkeypatch.setattr(verb, "installed", lambda mpi: ({}, {}))
    monkeypatch.delenv("AUTOTUNE_DOCS", raising=False)


@pytest.fixture
def bad(tmp_path, monkeypatch):
    """A file with two findings, in the current directory."""
    monkeypatch.chdir(tmp_path)
    (path := tmp_path / "mca-params.conf").write_text("pml = 'ucx'\nOMPI_MCA_btl = self\n")
    return path


def piped(monkeypatch, content):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_text_has_the_code_behind_the_line():
    lines = FORMATS["text"](REPORT).splitlines()
    assert lines[:2] == ["etc/mca-params.conf:3: MPI205 quotes become part of it", "    leave them out"]
    assert f"{HERE}/a b,c:d%.sh:7: MPI301 note: a, b: 100 %25" in lines
    assert lines[-2:] == [
        "3 findings in 4 file(s) for openmpi5",
        "2 notes not shown: --all, or --mpi for one version",
    ]


def test_json_has_everything_of_a_finding():
    document = answer(FORMATS["json"](REPORT))
    assert document["findings"][1] == {
        "file": f"{HERE}/a b,c:d%.sh",
        "line": 7,
        "code": "MPI301",
        "title": CODES["MPI301"].title,
        "effect": ODD,
        "remedy": ODD,
        "sure": False,
    }
    assert document["not_judged"][1] == {"file": f"{HERE}/x.sh", "line": 4, "why": "A is not followed"}
    assert (document["mpi"], document["files"], document["notes_not_shown"]) == ("openmpi5", 4, 2)


def commands(text):
    """Read workflow commands as GitHub's runner does: (kind, properties, message)."""
    for line in text.split("\n"):
        if match := re.fullmatch(r"::(\w+) (.*?)::(.*)", line):
            pairs = (pair.split("=", 1) for pair in match[2].split(","))
            yield match[1], {key: unquote(value) for key, value in pairs}, unquote(match[3])


def test_github_shows_annotations_that_its_runner_reads_back():
    read = list(commands(FORMATS["github"](REPORT)))
    assert read[1] == (
        "notice",
        {"file": "a b,c:d%.sh", "line": "7", "title": f"MPI301: {CODES['MPI301'].title}"},
        f"{ODD}\n{ODD}",
    )
    assert [kind for kind, _, _ in read] == ["error", "notice", "error", "error", "warning", "warning"]
    assert read[2][1] == {"file": "/opt/ü.conf", "title": f"MPI205: {CODES['MPI205'].title}"}
    assert read[5] == ("warning", {"file": "x.sh", "line": "4", "title": "not judged"}, "A is not followed")


def test_github_escapes_as_its_toolkit_does():
    said = FORMATS["github"](REPORT).splitlines()[1]
    assert said == (
        f"::notice file=a b%2Cc%3Ad%25.sh,line=7,title=MPI301%3A {CODES['MPI301'].title}"
        "::a, b: 100 %2525%0D%0Aand\tmore: 50%25,%0Aa, b: 100 %2525%0D%0Aand\tmore: 50%25,"
    )


def valid(text):
    document = json.loads(text)
    jsonschema.Draft4Validator(SCHEMA).validate(document)
    return document["runs"][0]


def test_the_schema_refuses_what_is_no_sarif():
    document = json.loads(FORMATS["sarif"](REPORT))
    document["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError, match="fatal"):
        jsonschema.Draft4Validator(SCHEMA).validate(document)


def test_sarif_is_valid_and_names_rules_levels_and_places():
    run = valid(FORMATS["sarif"](REPORT))
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("autotune lint", __version__)
    assert [rule["id"] for rule in driver["rules"]] == ["MPI106", "MPI205", "MPI301"]
    for rule in driver["rules"]:
        code = CODES[rule["id"]]
        assert rule["shortDescription"]["text"].rstrip(".") == code.title
        assert code.right in rule["help"]["text"] and code.right in rule["help"]["markdown"]
        assert rule["helpUri"] == f"https://site.example/docs/lint.md#{rule['id'].lower()}"
    for result, finding in zip(run["results"], FINDINGS, strict=True):
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == finding.code
        assert result["level"] == ("error" if finding.sure else "note")
        assert finding.effect in result["message"]["text"]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    uris = [place["artifactLocation"]["uri"] for place in places]
    assert uris[:2] == ["etc/mca-params.conf", "a%20b%2Cc%3Ad%25.sh"]
    assert [urlsplit(uri).scheme for uri in uris] == ["", "", "file", "file"]
    assert unquote(urlsplit(uris[2]).path) == "/opt/ü.conf"
    assert [place.get("region") for place in places] == [
        {"startLine": 3},
        {"startLine": 7},
        None,
        {"startLine": 1},
    ]
    (invocation,) = run["invocations"]
    said = [notice["message"]["text"] for notice in invocation["toolExecutionNotifications"]]
    assert said == ["not judged: is for csh", "not judged: A is not followed"]


def test_sarif_of_every_code_and_of_nothing_is_valid():
    findings = tuple(Finding(PurePath("a"), 1, code, "effect", "remedy") for code in CODES)
    assert len(valid(FORMATS["sarif"](Report("openmpi5", 1, findings)))["tool"]["driver"]["rules"]) == len(
        CODES
    )
    run = valid(FORMATS["sarif"](Report("openmpi5", 1, ())))
    assert run["results"] == run["tool"]["driver"]["rules"] == []


def test_links_are_left_out_where_the_address_of_the_book_is_not_known(bad, capsys, monkeypatch):
    assert main(["lint", bad.name, "--format", "sarif"]) == 1
    rules = valid(capsys.readouterr().out)["tool"]["driver"]["rules"]
    assert rules and not any("helpUri" in rule for rule in rules)
    monkeypatch.setenv("AUTOTUNE_DOCS", "https://site.example/lint")
    assert main(["lint", bad.name, "--format", "sarif"]) == 1
    assert '"https://site.example/lint#mpi205"' in capsys.readouterr().out


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_all_that_is_printed_and_has_the_same_exit_code(bad, capsys, form):
    assert main(["lint", str(bad), "--format", form]) == 1
    said = capsys.readouterr()
    assert said.err == ""
    assert "MPI205" in said.out and "MPI203" in said.out
    if form in ("json", "sarif"):
        json.loads(said.out)
    assert ("mca-params.conf" in said.out) and (str(bad) in said.out) == (form in ("text", "json"))


def test_json_is_the_format_of_that_name(bad, capsys):
    assert main(["lint", str(bad), "--json"]) == main(["lint", str(bad), "--json", "--format", "json"]) == 1
    one, two = capsys.readouterr().out.split("}\n{")
    assert json.loads(one + "}") == json.loads("{" + two)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--format", "xml"], "text, json, sarif, github"),
        (["--json", "--format", "sarif"], "give one of them"),
        (["--select", "MPI3,MPX1"], "--select MPX1: no code begins so"),
        (["--ignore", "MPI999"], "MPI, MPI1, MPI2"),
        (["--stdin-filename", "a.sh"], "is not read"),
        (["--explain", "--ranks", "2", "--bytes", "8", "--format", "github"], "--explain has text and json"),
        (["--explain", "--ranks", "2", "--bytes", "8", "--select", "MPI1"], "--explain takes one file"),
    ],
)
def test_a_mistake_gets_one_message(bad, capsys, words, said):
    assert main(["lint", str(bad), *words]) == 2
    answer = capsys.readouterr()
    assert said in answer.err and len(answer.err.splitlines()) == 2 and not answer.out


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        ([], {"MPI203", "MPI205"}),
        (["--select", "MPI2"], {"MPI203", "MPI205"}),
        (["--select", "MPI3"], set()),
        (["--select", "MPI3,MPI205"], {"MPI205"}),
        (["--select", "MPI3", "--select", "MPI203"], {"MPI203"}),
        (["--ignore", "MPI"], set()),
        (["--ignore", "MPI20", "--select", "MPI205"], {"MPI205"}),
        (["--select", "MPI2", "--ignore", "MPI205"], {"MPI203"}),
        (["--select", "MPI205", "--ignore", "MPI205"], set()),
    ],
)
def test_codes_are_chosen_by_their_beginnings_and_decide_the_exit_code(bad, capsys, words, codes):
    assert main(["lint", str(bad), "--json", *words]) == (1 if codes else 0)
    assert {row["code"] for row in json.loads(capsys.readouterr().out)["findings"]} == codes


def test_standard_input_has_the_name_that_it_is_given(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    piped(monkeypatch, b"pml = 'ucx'\r\n")
    assert main(["lint", "-", "--stdin-filename", "etc/mca-params.conf"]) == 1
    said = capsys.readouterr().out
    assert "etc/mca-params.conf:1: MPI205" in said and "etc/mca-params.conf:1: MPI206" in said
    piped(monkeypatch, b"export UCX_TLS = rc\n")
    assert main(["lint", "-"]) == 1
    assert "-:1: MPI507" in capsys.readouterr().out
    piped(monkeypatch, b"Dear all,\nwe meet.\n")
    assert main(["lint", "-"]) == 5
    assert "not judged: - is of an unknown kind" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"), [(b"\xff\xfe", "no UTF-8"), (b"1" * 5000, "more than 4,000 digits")]
)
def test_standard_input_that_is_no_text_is_refused(tmp_path, monkeypatch, capsys, content, said):
    piped(monkeypatch, content)
    assert main(["lint", "-"]) == 2
    assert said in capsys.readouterr().err


def test_what_is_not_judged_keeps_its_exit_code_in_every_format(tmp_path, capsys):
    (path := tmp_path / "a.csh").write_text("#!/bin/csh\nsetenv A 1\n")
    for form in FORMATS:
        assert main(["lint", str(path), "--format", form]) == 5
        said = capsys.readouterr()
        assert said.err.startswith(f"not judged: {path} is a script for csh")
        assert ("csh" in said.out) == (form != "text")
