"""
STOW-RS: objects that are stored over HTTP (PS3.18 10.5), as those of C-STORE.

The body is `multipart/related` with DICOM files. It is read within a limit, and within the memory
of all bodies in progress. The response names each object that is stored, and each that is not, with
a reason of PS3.18 annex I.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from typing import Any, Final

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from bridge.dicom.answers import AnswerCounter
from bridge.dicom.matching import is_uid
from bridge.dicom.objects import ObjectStore
from bridge.dicom.refusals import Refused
from bridge.dicom.statuses import CANNOT_UNDERSTAND
from bridge.dicom.web import WebRefused, WorklistWeb, negotiate, problem
from bridge.executors import PoolFull, ThreadLimit, Threads
from bridge.redaction import describe
from bridge.store.errors import StoreError
from bridge.web.bodies import BodyTooLarge, BoundedRequest, BudgetExhausted
from config.dicom import DicomPeer
from parsers.dicom_file import FileMeta, read_meta

MAX_PARTS: Final = 100
"""Objects of one request."""
_HEADERS: Final = 4096  # bytes of the headers of a part
_BOUNDARY: Final = 200  # characters; RFC 2046 allows 70, and Orthanc sends 73
_FILE: Final = "application/dicom"
_RETRY_SECONDS: Final = "5"
_THREADS: Final = ThreadLimit(Threads.EXTERNAL, "STOW-RS", 1, 16)


@dataclass(slots=True)
class _Outcome:
    """The sequences of a response: stored, failed, and parts that are no objects."""

    stored: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)
    other: list[dict[str, Any]] = field(default_factory=list)

    @property
    def status(self) -> HTTPStatus:
        if not (self.failed or self.other):
            return HTTPStatus.OK
        return HTTPStatus.ACCEPTED if self.stored else HTTPStatus.CONFLICT

    def body(self) -> dict[str, Any]:
        """Return the Store Instances Response Module (PS3.18 table I.1-1)."""
        sequences = {"00081198": self.failed, "00081199": self.stored, "0008119A": self.other}
        found = {tag: {"vr": "SQ", "Value": items} for tag, items in sequences.items() if items}
        return {"00081190": {"vr": "UR"}, **found}


class StoreWeb:
    """The routes of STOW-RS."""

    def __init__(
        self,
        objects: ObjectStore,
        answers: AnswerCounter,
        web: WorklistWeb,
        max_size: int,
    ) -> None:
        """`web` knows the peers; `max_size` limits the bytes of all objects of a request."""
        self._log = structlog.get_logger("dicom")
        self._objects = objects
        self._answers = answers
        self._web = web
        self._limit = max_size + MAX_PARTS * _HEADERS

    def routes(self) -> Sequence[Route]:
        return (
            Route("/studies", self.store, methods=["POST"]),
            Route("/studies/{study}", self.store, methods=["POST"]),
        )

    async def store(self, request: Request) -> Response:
        """Store the objects of a request; of one study, if the address names it."""
        began, title = time.monotonic(), ""
        try:
            peer = self._web.authenticate(request, "store")
            title = peer.ae_title
            kind = negotiate(request)
            study = _study(request)
            boundary = _boundary(request.headers)
            with BoundedRequest(request, self._limit) as bounded:
                body = await bounded.body()
                outcome = await _THREADS.run(self._store, body, boundary, study, peer)
            response = Response(json.dumps(outcome.body()), outcome.status, media_type=kind)
        except WebRefused as refused:
            response = problem(refused)
        except ClientDisconnect:  # nobody reads the response
            response = problem(WebRefused(HTTPStatus.BAD_REQUEST, "the body has no end"))
        except BodyTooLarge as error:
            response = problem(WebRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error)))
        except (BudgetExhausted, PoolFull, StoreError) as error:
            if isinstance(error, StoreError):
                self._log.error("objects not stored", error=describe(error))
            text = "not stored: send it again"
            response = problem(WebRefused(HTTPStatus.SERVICE_UNAVAILABLE, text))
            response.headers["retry-after"] = _RETRY_SECONDS
        self._answers.count(
            title,
            "STOW-RS",
            str(response.status_code),
            is_success=response.status_code < HTTPStatus.BAD_REQUEST,
            began=began,
            address=self._web.address_of(request),
        )
        response.headers["cache-control"] = "no-store"
        return response

    def _store(self, body: bytes, boundary: bytes, study: str, peer: DicomPeer) -> _Outcome:
        """Store the parts of a body. Raises WebRefused, StoreError; then a repetition is safe."""
        outcome = _Outcome()
        for start, end in list(_parts(body, boundary)):
            try:
                meta = self._store_part(body[start:end], study, peer)
            except _Failed as failed:
                if failed.meta is None:
                    outcome.other.append(_reason(failed.refused))
                else:
                    outcome.failed.append({**_instance(failed.meta), **_reason(failed.refused)})
            else:
                outcome.stored.append({**_instance(meta), "00081190": {"vr": "UR"}})
        return outcome

    def _store_part(self, content: bytes, study: str, peer: DicomPeer) -> FileMeta:
        """Store one object. Raises _Failed, StoreError."""
        try:
            found, data_set = read_meta(content)
        except Exception:  # noqa: BLE001  # pydicom raises arbitrary exceptions
            raise _Failed(None, Refused(CANNOT_UNDERSTAND, "it is no DICOM file")) from None
        meta = FileMeta(found.sop_class, found.sop_instance, found.transfer_syntax, peer.ae_title)
        try:
            self._objects.store(meta, data_set, peer.sites, study=study, is_posted=True)
        except Refused as refused:
            raise _Failed(meta, refused) from None
        return meta


class _Failed(Exception):
    """An object that is not stored; `meta` is None if it is no DICOM file."""

    def __init__(self, meta: FileMeta | None, refused: Refused) -> None:
        self.meta, self.refused = meta, refused
        super().__init__(str(refused))


def _instance(meta: FileMeta) -> dict[str, Any]:
    return {
        "00081150": {"vr": "UI", "Value": [meta.sop_class]},
        "00081155": {"vr": "UI", "Value": [meta.sop_instance]},
    }


def _reason(refused: Refused) -> dict[str, Any]:
    """Return Failure Reason, and the comment that names the attribute."""
    return {
        "00081197": {"vr": "US", "Value": [refused.status]},
        "00000902": {"vr": "LO", "Value": [refused.comment]},
    }


def _study(request: Request) -> str:
    """Return the study of the address, '' if it has none. Raises WebRefused."""
    study: str = request.path_params.get("study", "")
    if study and not is_uid(study):
        text = "the address has no UID in place of the study"
        raise WebRefused(HTTPStatus.BAD_REQUEST, text, "StudyInstanceUID")
    return study


def _boundary(headers: Any) -> bytes:
    """Return the boundary of a request. Raises WebRefused."""
    if headers.get("content-encoding", "identity").lower() != "identity":
        text = "a body with Content-Encoding is not supported"
        raise WebRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, text)
    kind = Message()
    kind["content-type"] = headers.get("content-type", "")
    parts = str(kind.get_param("type", _FILE)).lower()
    boundary = str(kind.get_param("boundary", ""))
    if kind.get_content_type() != "multipart/related" or parts != _FILE:
        text = f'only multipart/related; type="{_FILE}" is supported'
        raise WebRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, text)
    if not (0 < len(boundary) <= _BOUNDARY and boundary.isascii()):
        text = f"a boundary of 1 to {_BOUNDARY} characters is needed"
        raise WebRefused(HTTPStatus.BAD_REQUEST, text)
    return boundary.encode()


def _parts(body: bytes, boundary: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the contents of the parts begin and end (RFC 2046 5.1.1). Raises WebRefused."""
    mark, count = b"--" + boundary, 0
    at = 0 if body.startswith(mark) else body.find(b"\r\n" + mark) + 2
    if at == 1:
        raise WebRefused(HTTPStatus.BAD_REQUEST, "the boundary does not occur")
    while not body.startswith(b"--", at + len(mark)):
        head = body.find(b"\r\n", at + len(mark))
        end = body.find(b"\r\n" + mark, head) if head >= 0 else -1
        start = body.find(b"\r\n\r\n", head, head + _HEADERS)
        if end < 0 or not head <= start <= end:
            raise WebRefused(HTTPStatus.BAD_REQUEST, f"part {count + 1} has no end or no headers")
        _require_file(body[head + 2 : start + 2], count + 1)
        count += 1
        if count > MAX_PARTS:
            raise WebRefused(HTTPStatus.BAD_REQUEST, f"more than {MAX_PARTS} parts")
        yield start + 4, end
        at = end + 2
    if not count:
        raise WebRefused(HTTPStatus.BAD_REQUEST, "the request has no objects")


def _require_file(headers: bytes, number: int) -> None:
    """Raise WebRefused unless a part is a DICOM file."""
    for line in headers.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-type":
            kind = value.partition(b";")[0].strip().lower()
            if kind != _FILE.encode():
                text = f"part {number} is not {_FILE}"
                raise WebRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, text)
            return
    raise WebRefused(HTTPStatus.BAD_REQUEST, f"part {number} has no Content-Type")
