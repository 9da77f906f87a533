"""
Read the secrets of a home: tokens, and the key ring that seals links.

A key ring is a line for each key, newest first: its id, a blank, 32 bytes in Base64.
"""

import base64
import binascii
from pathlib import Path
from typing import Final

from config.errors import Mistake, SettingsError

KEY_BYTES: Final = 32


def read_token(path: Path) -> str:
    """Return the token in a file; raise SettingsError naming the file, never what it holds."""
    token = _text(path).strip()
    if not token or any(character.isspace() for character in token):
        raise SettingsError([Mistake(str(path), "must hold one token and nothing else")])
    return token


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
