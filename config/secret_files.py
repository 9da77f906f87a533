"""
Secrets in files: tokens, passwords, and the key ring that seals links.

A key ring has one line for each key, newest first: its id, a blank, and 32 bytes in Base64.
"""

import base64
import binascii
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from config.private_files import replace_all
from config.toml_text import Mistake, SettingsError

KEY_BYTES: Final = 32


def read_token(path: Path) -> str:
    """Return the token in a file. Raises SettingsError, which never contains the content."""
    token = _text(path).strip()
    if not token or any(character.isspace() for character in token):
        raise SettingsError([Mistake(str(path), "must contain one token and nothing else")])
    return token


def read_secret(path: Path) -> str:
    """Return the single line of a file, such as a password. Raises SettingsError."""
    secret = _text(path).strip()
    if not secret or len(secret.splitlines()) != 1:
        raise SettingsError([Mistake(str(path), "must contain one line and nothing else")])
    return secret


def read_link_keys(path: Path) -> tuple[tuple[str, bytes], ...]:
    """Return the key ring, newest key first. Raises SettingsError."""
    keys: list[tuple[str, bytes]] = []
    mistakes: list[Mistake] = []
    for number, line in enumerate(_text(path).splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        key_id, _, encoded = line.strip().partition(" ")
        key = _decoded(encoded.strip())
        if not key_id or len(key) != KEY_BYTES:
            mistakes.append(Mistake(f"{path}:{number}", "write a key id, a blank, 32 bytes Base64"))
        keys.append((key_id, key))
    if not keys:
        mistakes.append(Mistake(str(path), "contains no key"))
    if mistakes:
        raise SettingsError(mistakes)
    return tuple(keys)


def new_index_key() -> bytes:
    """Return the content of a new index key file."""
    return base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n"


def read_index_key(path: Path) -> bytes:
    """Return the key of index hashes. Raises SettingsError."""
    key = _decoded(_text(path).strip())
    if len(key) != KEY_BYTES:
        raise SettingsError([Mistake(str(path), "must contain one line: 32 bytes in Base64")])
    return key


def write_link_keys(path: Path, keys: Sequence[tuple[str, bytes]]) -> None:
    """Replace the key ring atomically."""
    lines = [f"{key_id} {base64.b64encode(key).decode('ascii')}\n" for key_id, key in keys]
    replace_all({path: "".join(lines).encode("ascii")})


class WatchedKeys:
    """
    The key ring of a file, read again after the file was replaced.

    The engine calls it for each sealed link; checking the time stamp takes microseconds. If the
    file cannot be read, the previous ring stays in use.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = _stamp(path)

    def changed(self) -> tuple[tuple[str, bytes], ...] | None:
        """Return the ring if the file has changed, else None."""
        seen = _stamp(self._path)
        if seen is None or seen == self._seen:
            return None
        try:
            keys = read_link_keys(self._path)
        except SettingsError:
            return None
        self._seen = seen
        return keys


class WatchedToken:
    """The token of a file, read again after the file was replaced or changed."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises SettingsError."""
        self.path = path
        self._seen, self._token = _stamp(path), read_token(path)

    @property
    def token(self) -> str:
        """The token; while the file cannot be read, the last one."""
        seen = _stamp(self.path)
        if seen != self._seen:
            self._seen = seen
            with suppress(SettingsError):
                self._token = read_token(self.path)
        return self._token


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text"
        raise SettingsError([Mistake(str(path), reason or "cannot be read")]) from error
