"""Prove that a journal, or a file that belongs to it, was written by this user.

A campaign's directory may be a copy from anywhere, and its journal names programs, launchers and
environments. So the proof is checked before anything that a journal names is started. The proof is a seal on
the description of the campaign, made with a key of the user who runs the campaign: HMAC-SHA256 (RFC 2104) in
each ``started`` event. If a journal lacks such a seal, the user is asked.
"""

import contextlib
import hashlib
import hmac
import json
import os
import pwd
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune.probe.own_files import make_own, opened_own

_BYTES = 32
"""Length of the key in bytes, that of the hash, since a longer key is no stronger (RFC 2104, section 3)."""


def signed(document: object) -> str:
    """Return proof that a document of JSON values is this user's own; empty if no key can be stored."""
    for folder in _folders():
        with contextlib.suppress(OSError):  # this home may not be writable
            _make_key(folder)
            return _proof(document, folder)
    return ""


def is_signed(document: object, proof: object) -> bool:
    """Whether the proof was made for the document with a key of this user."""
    return _is_one_of([proof], document)


def seal(events: Sequence[Mapping[str, Any]]) -> str:
    """Return proof that this user has run the campaign that a journal describes.

    The result is empty if no key can be stored.
    """
    return signed(_described(events))


def is_sealed(events: Sequence[Mapping[str, Any]]) -> bool:
    """Whether this user has run the campaign as its journal describes it."""
    seals = [str(event.get("seal", "")) for event in events if event["event"] == "started"]
    return _is_one_of(seals, _described(events))


def _is_one_of(proofs: Iterable[object], document: object) -> bool:
    """Whether any of the proofs was made with a key of this user; empty or non-text values are no proofs."""
    encoded = [proof.encode() for proof in proofs if isinstance(proof, str) and proof]
    for folder in _folders() if encoded else ():
        with contextlib.suppress(OSError):
            own_proof = _proof(document, folder).encode()
            if any(hmac.compare_digest(own_proof, proof) for proof in encoded):
                return True
    return False


def _described(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [event for event in events if event["event"] in ("campaign", "changed")]


def _proof(document: object, folder: Path) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    with opened_own(folder / "key") as descriptor:
        return hmac.new(os.read(descriptor, _BYTES), text, hashlib.sha256).hexdigest()


def _folders() -> Iterator[Path]:
    """Yield the folders where this user's key may be.

    They are in the home that the environment names, and in the home that the system's user database names,
    since the environment of a cron job may differ.
    """
    with contextlib.suppress(RuntimeError):
        yield Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "autotune"
    with contextlib.suppress(KeyError):
        yield Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".local" / "state" / "autotune"


def _make_key(folder: Path) -> None:
    """Make the user's own key where there is none."""
    path = folder / "key"
    if not path.exists():
        make_own(folder)
        fresh = folder / f"key.{secrets.token_hex(8)}"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
        try:
            os.link(fresh, path)  # fails rather than replace a key that another campaign has made meanwhile
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
