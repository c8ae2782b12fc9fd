"""Whose word a journal, or what is kept beside one, is (read before anything that it names is started).

A campaign's directory is unpacked and copied, and its journal names programs, launchers and environments.
So what a campaign is, as its journal says it, is sealed with a key of the user's who runs it: HMAC-SHA256
(RFC 2104) in each ``started`` event. Of a journal without such a seal the user is asked.
"""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune.probe.own_files import make_own, opened_own

_BYTES = 32
"""Length of the key: that of the hash, more adds no strength (RFC 2104, section 3)."""


def signed(document: object) -> str:
    """Proof that a document of JSON values is this user's own; empty: no key can be kept."""
    try:
        text = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
        return hmac.new(_key(), text, hashlib.sha256).hexdigest()
    except (OSError, RuntimeError):  # no home, or one that cannot be written
        return ""


def is_signed(document: object, proof: object) -> bool:
    """Whether this user has given that proof for the document."""
    ours = signed(document) if isinstance(proof, str) and proof else ""
    return bool(ours) and hmac.compare_digest(ours.encode(), str(proof).encode())


def seal(events: Sequence[Mapping[str, Any]]) -> str:
    """Proof that this user has run the campaign that a journal describes; empty: no key can be kept."""
    return signed([event for event in events if event["event"] in ("campaign", "changed")])


def is_sealed(events: Sequence[Mapping[str, Any]]) -> bool:
    """Whether this user has run the campaign as its journal describes it."""
    seals = [str(event.get("seal", "")) for event in events if event["event"] == "started"]
    ours = seal(events) if any(seals) else ""
    return bool(ours) and any(hmac.compare_digest(ours.encode(), other.encode()) for other in seals)


def _key() -> bytes:
    """The user's own key, made where there is none."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "autotune"
    path = folder / "key"
    if not path.exists():
        make_own(folder)
        fresh = folder / f"key.{secrets.token_hex(8)}"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
        try:
            os.link(fresh, path)  # not over the key that another campaign has made meanwhile
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    with opened_own(path) as descriptor:
        return os.read(descriptor, _BYTES)
