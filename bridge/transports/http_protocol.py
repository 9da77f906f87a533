"""
HL7 over HTTP: content types, charsets, status codes, the Authorization header.

Source: HAPI, HL7 over HTTP specification, chapter 2. Pure, except that it reads one file.
"""

from collections.abc import Mapping
from email.message import Message as Headers
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Final

from bridge.transports import AuthorizationUnusable
from mappings.hl7.acknowledgment import read_ack
from mappings.hl7.batch import split
from mappings.hl7.charset import codec_for, is_codec, known_codec
from mappings.hl7.header import peek
from mappings.hl7.refusals import AckCode, MalformedMessage

CONTENT_TYPE: Final = "application/hl7-v2"
ACCEPTED: Final = frozenset(
    {
        CONTENT_TYPE,
        "application/hl7-v2+er7",
        "x-application/hl7-v2+er7",
        "application/edi-hl7",
        "text/plain",
        "application/octet-stream",
        "",
    }
)
"""Accepted content types; XML (`application/hl7-v2+xml`) is not supported."""

STATUS: Mapping[AckCode, HTTPStatus] = MappingProxyType(
    {
        AckCode.ACCEPT: HTTPStatus.OK,
        AckCode.COMMIT_ACCEPT: HTTPStatus.OK,
        AckCode.REJECT: HTTPStatus.BAD_REQUEST,
        AckCode.COMMIT_REJECT: HTTPStatus.BAD_REQUEST,
        AckCode.ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
        AckCode.COMMIT_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
    }
)


def status_of(reply: bytes) -> HTTPStatus:
    """Return the HTTP status for an acknowledgment; for a batch, the worst one."""
    try:
        batch = split(reply)
    except MalformedMessage:
        batch = None
    codes = [read_ack(part).code for part in ([reply] if batch is None else batch)]
    return max((STATUS[code] for code in codes if code is not None), default=HTTPStatus.OK)


def read_content_type(value: str) -> tuple[str, str]:
    """Return the media type in lower case, and the charset ('' if there is none)."""
    headers = Headers()
    headers["content-type"] = value
    media = value.partition(";")[0].strip().lower()
    return media, str(headers.get_param("charset", "") or "")


def to_listener_charset(payload: bytes, declared: str, listener_charset: str) -> bytes:
    """
    Convert a message without MSH-18 from the declared charset to the listener's.

    Bytes that are not valid in the declared charset stay unchanged.
    """
    codec = _codec_of(declared)
    return payload if codec is None else _recode(payload, codec, listener_charset)


def to_sender_charset(reply: bytes, declared: str, listener_charset: str) -> bytes:
    """Convert a reply without MSH-18 to the charset that the request declared."""
    codec = _codec_of(declared)
    return reply if codec is None else _recode(reply, listener_charset, codec)


def _codec_of(declared: str) -> str | None:
    return declared if declared and is_codec(declared) else known_codec(declared)


def _recode(payload: bytes, before: str, after: str) -> bytes:
    """Convert a message without MSH-18 from one charset to another, if it is possible."""
    if codec_for("", before) == codec_for("", after):
        return payload
    try:
        if peek(payload).charset:
            return payload
        return payload.decode(before).encode(after)
    except (MalformedMessage, UnicodeError, LookupError):
        return payload


def content_type_of(payload: bytes) -> str:
    """Return the Content-Type of a message to send, with the charset of MSH-18."""
    names = peek(payload).charset.decode("latin-1")
    codec = known_codec(names.split("~")[0]) if names else None
    return CONTENT_TYPE if codec is None else f"{CONTENT_TYPE}; charset={codec}"


def read_authorization(owner: str, file: Path | None) -> bytes | None:
    """Read the value of an Authorization header from a file. Raises AuthorizationUnusable."""
    if file is None:
        return None
    try:
        value = file.read_bytes().strip()
    except OSError as error:
        reason = error.strerror or "cannot be read"
        raise AuthorizationUnusable(owner, f"{file}: {reason}") from None
    if not value or b"\n" in value or b"\r" in value:
        raise AuthorizationUnusable(owner, "must hold one line, such as Bearer …")
    return value
