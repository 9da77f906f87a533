"""Read the secrets of a home, and rotate them: tokens, and the key ring that seals links.

A key ring is a line for each key, newest first: its id, a blank, 32 bytes in Base64.
"""

import base64
import binascii
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from config.errors import Mistake, SettingsError
from config.private_files import replace_all

KEY_BYTES: Final = 32


def read_token(path: Path) -> str:
    """Return the token in a file; raise SettingsError naming the file, never what it holds."""
    token = _text(path).strip()
    if not token or any(character.isspace() for character in token):
        raise SettingsError([Mistake(str(path), "must hold one token and nothing else")])
    return token


def read_secret(path: Path) -> str:
    """Return the one line of a file, such as a password; raise SettingsError naming the file."""
    secret = _text(path).strip()
    if not secret or len(secret.splitlines()) != 1:
        raise SettingsError([Mistake(str(path), "must hold one line and nothing else")])
    return secret


def read_link_keys(path: Path) -> tuple[tuple[str, bytes], ...]:
    """Return the key ring, newest first; raise SettingsError naming file and line."""
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
        mistakes.append(Mistake(str(path), "holds no key"))
    if mistakes:
        raise SettingsError(mistakes)
    return tuple(keys)


def new_index_key() -> bytes:
    """Make the content of a new file for the key of index hashes."""
    return base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n"


def read_index_key(path: Path) -> bytes:
    """Return the key of index hashes; raise SettingsError naming the file."""
    key = _decoded(_text(path).strip())
    if len(key) != KEY_BYTES:
        raise SettingsError([Mistake(str(path), "must hold one line: 32 bytes in Base64")])
    return key


def write_link_keys(path: Path, keys: Sequence[tuple[str, bytes]]) -> None:
    """Replace the key ring in one step: a reader sees the old file or the new one."""
    lines = [f"{key_id} {base64.b64encode(key).decode('ascii')}\n" for key_id, key in keys]
    replace_all({path: "".join(lines).encode("ascii")})


class WatchedKeys:
    """
    The key ring of a file, read again when the file has been replaced.

    Asked each time that a link is sealed: a look at the file's time stamp costs microseconds. A
    file that cannot be read leaves the ring as it is.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = _stamp(path)

    def changed(self) -> tuple[tuple[str, bytes], ...] | None:
        """Return the ring if the file is another one than before, else None."""
        seen = _stamp(self._path)
        if seen is None or seen == self._seen:
            return None
        try:
            keys = read_link_keys(self._path)
        except SettingsError:
            return None
        self._seen = seen
        return keys


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
