"""What verbs print with ``--json``, read as the published schemas describe it."""

import json
from functools import cache
from pathlib import Path

from jsonschema import Draft202012Validator

from autotune.views.documents import SCHEMAS

FOLDER = Path(__file__).parents[1] / "docs" / "schemas"


def answer(text):
    """The document that a verb printed: with every key that its schema asks for, and none that it lacks."""
    document = json.loads(text)
    program, name, version = document["schema"].split("/")
    assert (program, int(version)) == ("autotune", SCHEMAS[name])
    strict(name).validate(document)
    return document


@cache
def strict(name):
    """A validator of a document that also refuses keys which the schema leaves to later versions."""
    return Draft202012Validator(_closed(schema(name)))


def schema(name):
    """The published schema of a document."""
    return json.loads((FOLDER / f"{name}.schema.json").read_text("utf-8"))


def _closed(node):
    if isinstance(node, list):
        return [_closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    closed = {key: _closed(item) for key, item in node.items()}
    if "properties" in closed and "object" in closed.get("type", ()):
        closed.setdefault("additionalProperties", False)
    return closed
