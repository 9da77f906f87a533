"""
How HL7 v2 is written in HTTP: content types, charsets, status codes, the Authorization header.

Pure but for reading one file. Source: HAPI, HL7 over HTTP specification, chapter 2.
"""

from collections.abc import Mapping
from email.message import Message as Headers
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Final

from bridge.transports.errors import AuthorizationUnusable
from mappings.hl7.acknowledgment import read_ack
from mappings.hl7.batch import split
from mappings.hl7.charset import codec_for, is_codec, known_codec
from mappings.hl7.header import peek
from mappings.hl7.refusals import MalformedMessage
from mappings.hl7.tables import AckCode

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
"""What senders call it; XML (`application/hl7-v2+xml`) is not read."""

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
    """Give the status that says what an acknowledgment says; a batch is as bad as its worst."""
    try:
        inside = split(reply)
    except MalformedMessage:
        inside = None
    codes = [read_ack(each).code for each in ([reply] if inside is None else inside)]
    return max((STATUS[code] for code in codes if code is not None), default=HTTPStatus.OK)


def read_content_type(value: str) -> tuple[str, str]:
    """Give the media type in lower case, and the charset as written ('' where none is)."""
    headers = Headers()
    headers["content-type"] = value
    media = value.partition(";")[0].strip().lower()
    return media, str(headers.get_param("charset", "") or "")


def to_listener_charset(payload: bytes, declared: str, fallback: str) -> bytes:
    """
    Write a message that names no charset itself in the one that the listener will read it in.

    The Content-Type says what its text is then; bytes that are no such text stay as they are.
    """
    codec = _codec_of(declared)
    return payload if codec is None else _recode(payload, codec, fallback)


def to_sender_charset(reply: bytes, declared: str, fallback: str) -> bytes:
    """Write an answer that names no charset in the one that the request's Content-Type declared."""
    codec = _codec_of(declared)
    return reply if codec is None else _recode(reply, fallback, codec)


def _codec_of(declared: str) -> str | None:
    return declared if declared and is_codec(declared) else known_codec(declared)


def _recode(payload: bytes, before: str, after: str) -> bytes:
    if codec_for("", before) == codec_for("", after):
        return payload
    try:
        if peek(payload).charset:
            return payload
        return payload.decode(before).encode(after)
    except (MalformedMessage, UnicodeError, LookupError):
        return payload


def content_type_of(payload: bytes) -> str:
    """Give the Content-Type of a message that we send; its charset is MSH-18's."""
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
        why = error.strerror or "cannot be read"
        raise AuthorizationUnusable(owner, f"{file}: {why}") from None
    if not value or b"\n" in value or b"\r" in value:
        raise AuthorizationUnusable(owner, "must hold one line, such as Bearer …")
    return value
