"""
DICOMweb: the worklist over HTTP, to search and to read.

`/dicomweb/modality-scheduled-procedure-steps` is MWL-RS (PS3.18 14), `/dicomweb/workitems` is
UPS-RS (PS3.18 11.5 and 11.9). A peer has a token; it sees the steps that it sees over DIMSE.
"""

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

from pydicom.datadict import dictionary_VR, tag_for_keyword
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bridge.dicom import matching
from bridge.dicom.encoding import MAX_DEPTH
from bridge.dicom.matching import STEPS, BadKey, Item, Key, Query
from bridge.dicom.peer_tokens import PeerTokens
from bridge.dicom.search import Found, choose_rows, exact_values, find_rows, find_steps
from bridge.dicom.workitems import ATTRIBUTES, STATE, STATES, UID, workitem
from bridge.executors import PoolFull, ThreadLimit, Threads
from bridge.metrics import Metrics
from bridge.network_source import Proxies
from bridge.store.database import Database
from bridge.store.errors import StoreError
from config import Settings
from config.dicom import DicomPeer

PATH: Final = "/dicomweb"
_JSON: Final = "application/dicom+json"
_TYPES: Final = (_JSON, "application/json")
"""Media types of an answer. The first one is taken unless the client prefers the other."""
_RANGES: Final = ("application/*", "*/*")
_THREADS: Final = ThreadLimit(Threads.EXTERNAL, "DICOMweb", 2, 32)
_MAX_KEYS: Final = 100
_AGENT: Final = "report-bridge"
_NOT_FUZZY: Final = (
    "The fuzzymatching parameter is not supported. Only literal matching has been performed."
)
_MORE: Final = (
    "The number of results exceeded the maximum supported by the server. Additional results can be "
    "requested."
)
_UNUSED: Final = "The following keys are not supported and were not used"
_REPEATED: Final = "is given more than once"
_NO_SEQUENCE: Final = "is no sequence"
_ONCE: Final = frozenset({"limit", "offset", "fuzzymatching"})
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_DEFAULT: Final = (
    *("00080005", "00080050", "00080090", "00100010", "00100020", "00100030", "00100040"),
    *("0020000D", "00321060", "00321064", STEPS, "00401001", "00401003"),
)
"""Attributes of an answer, beside the keys and includefield."""


class WebRefused(Exception):
    """A request that is refused with a status; `attribute` is the one at fault."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        attribute: str = "",
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.attribute = status, detail, attribute
        self.headers = headers


@dataclass(frozen=True, slots=True)
class _Search:
    """The parameters of a search."""

    query: Query
    fields: frozenset[str] | None
    """Attributes of the answer; None: all."""
    limit: int | None
    offset: int
    fuzzy: bool


def has_peers(settings: Settings) -> bool:
    """True if a peer may use the worklist over HTTP."""
    return any(peer.token_file is not None for peer in settings.dicom.peer)


class WorklistWeb:
    """The routes of the worklist. `on_request` gets peer, request and number of answers."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        metrics: Metrics,
        on_request: Callable[[str, str, int], object],
        on_refusal: Callable[[str, str, str], object],
    ) -> None:
        """Read the tokens. `on_refusal` gets reason, address and peer. Raises SettingsError."""
        self._database, self._metrics, self._on_request = database, metrics, on_request
        self._on_refusal = on_refusal
        self._proxies = Proxies(settings.http.trusted_proxies)
        self.tokens = PeerTokens(settings, settings.dicom.peer)

    def router(self, *more: Route) -> Starlette:
        """Return the routes; `more` are those of other services. Each refusal has a body."""
        steps = partial(self._answer, "MWL-RS", self._steps)
        found = partial(self._answer, "UPS-RS search", self._workitems)
        one = partial(self._answer, "UPS-RS retrieve", self._workitem)
        return Starlette(
            routes=[
                Route("/modality-scheduled-procedure-steps", steps, methods=["GET"]),
                Route("/workitems", found, methods=["GET"]),
                Route("/workitems/{uid}", one, methods=["GET"]),
                Route("/workitems/{uid}/{transaction:path}", _refuse_change, methods=[]),
                *more,
            ],
            exception_handlers={HTTPException: _no_route},
        )

    async def _answer(
        self, name: str, work: Callable[[Request, DicomPeer], Response], request: Request
    ) -> Response:
        title = ""
        try:
            peer = self.authenticate(request, "worklist")
            title = peer.ae_title
            kind = negotiate(request)
            response = await _THREADS.run(work, request, peer)
            if response.media_type == _JSON:
                response.headers["content-type"] = kind
        except WebRefused as error:
            response = problem(error)
        except (PoolFull, StoreError):
            status = HTTPStatus.SERVICE_UNAVAILABLE
            response = problem(WebRefused(status, "the worklist is not available; try again"))
            response.headers["retry-after"] = "5"
        status_code = str(response.status_code)
        self._metrics.dicom_requests.labels(title, name, status_code).inc()
        response.headers["cache-control"] = "no-store"
        return response

    def address_of(self, request: Request) -> str:
        """Return the address of the client, '' if it is unknown."""
        client = request.client.host if request.client else ""
        return self._proxies.client(request.headers, client)

    def authenticate(self, request: Request, service: str) -> DicomPeer:
        """Return the peer of a request, which may use a service. Raises WebRefused."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        address = self.address_of(request)
        if (blocked := self.tokens.blocked(address)) is not None:
            status = HTTPStatus.TOO_MANY_REQUESTS
            detail = "this address sent too many wrong tokens; try again later"
            raise WebRefused(status, detail, headers=blocked.headers())
        found = self.tokens.find(token.strip(), address) if scheme.lower() == "bearer" else None
        if found is None:
            self.tokens.count_failure(address)
            self._on_refusal("token", address, "")
            raise WebRefused(HTTPStatus.UNAUTHORIZED, "the token is not that of a peer here")
        if service not in found.may:
            self._on_refusal("service", address, found.ae_title)
            raise WebRefused(HTTPStatus.FORBIDDEN, f"the peer may not use the service {service}")
        return found

    def _steps(self, request: Request, peer: DicomPeer) -> Response:
        search = _read_search(request)
        found = find_steps(self._database, peer, search.query)
        known = partial(matching.is_known, level="")
        return self._respond("MWL-RS", peer, search, found, known, _DEFAULT)

    def _workitems(self, request: Request, peer: DicomPeer) -> Response:
        search = _read_search(request)
        chosen = choose_rows(peer, {})
        if chosen is None:
            return Response(status_code=HTTPStatus.NO_CONTENT)
        chosen = replace(chosen, workitem_uids=exact_values(search.query.get(UID)))
        if (state := search.query.get(STATE)) is not None and not state.is_universal:
            asked = [
                status
                for status, name in STATES.items()
                if matching.matches({STATE: state}, {STATE: {"vr": "CS", "Value": [name]}})
            ]
            chosen = replace(chosen, statuses=asked or ["-"])
        # A key of the worklist that no workitem has would otherwise match none.
        query = {tag: key for tag, key in search.query.items() if tag in ATTRIBUTES}
        found = find_rows(self._database, chosen, query, workitem)
        return self._respond("UPS-RS", peer, search, found, ATTRIBUTES.__contains__)

    def _workitem(self, request: Request, peer: DicomPeer) -> Response:
        uid = request.path_params["uid"]
        chosen = choose_rows(peer, {})
        if chosen is not None:
            one = replace(chosen, statuses=list(STATES), workitem_uids=(uid,))
            for _, item in find_rows(self._database, one, {}, workitem):
                self._on_request(peer.ae_title, "UPS-RS", 1)
                return _json([item], HTTPStatus.OK)
        return _missing()

    def _respond(
        self,
        name: str,
        peer: DicomPeer,
        search: _Search,
        found: Iterator[Found],
        is_known: Callable[[str], bool],
        default: Sequence[str] = (),
    ) -> Response:
        limit = peer.max_answers
        if search.limit is not None:
            limit = min(limit, search.limit)
        rows = list(itertools.islice(found, search.offset, search.offset + limit + 1))
        is_cut = len(rows) > limit and limit == peer.max_answers and limit != search.limit
        items = [_shown(item, search, default) for _, item in rows[:limit]]
        warnings = [_NOT_FUZZY] if search.fuzzy else []
        if unused := [*_unused(search.query, [item for _, item in rows], is_known)]:
            warnings.append(f"{_UNUSED}: {', '.join(unused)}")
        if is_cut:
            warnings.append(_MORE)
        self._on_request(peer.ae_title, name, len(items))
        if not items:
            response = Response(status_code=HTTPStatus.NO_CONTENT)
        else:
            response = _json(items, HTTPStatus.PARTIAL_CONTENT if is_cut else HTTPStatus.OK)
        if warnings:
            texts = (f'299 {_AGENT} "{warning}"' for warning in warnings)
            response.headers["warning"] = ", ".join(texts)
        return response


_REPRESENTATION: Final = frozenset({"accept", "charset"})


def negotiate(request: Request) -> str:
    """
    Return the media type of the answer; the parameter has priority over the header (PS3.18 8.3.3).

    Raises WebRefused if the client accepts none, or no UTF-8.
    """
    if request.query_params.get("charset", "utf-8").lower() not in {"utf-8", "*"}:
        raise WebRefused(HTTPStatus.NOT_ACCEPTABLE, "only UTF-8 is supported", "charset")
    parameter = request.query_params.get("accept")
    weights = _weights(parameter or ",".join(request.headers.getlist("accept")) or "*/*")

    def weight(kind: str) -> float:
        """Return that of the most specific range (RFC 9110 12.5.1)."""
        return next((weights[name] for name in (kind, *_RANGES) if name in weights), 0.0)

    best = max(_TYPES, key=weight)
    if not weight(best):
        raise WebRefused(HTTPStatus.NOT_ACCEPTABLE, f"only {_JSON} is supported")
    return best


_WEIGHT: Final = re.compile(r"q\s*=\s*(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)")


def _weights(accepted: str) -> Mapping[str, float]:
    """Return the weights of media types and ranges; 1 if none, or a malformed one, is given."""
    found: dict[str, float] = {}
    for part in accepted.lower().split(","):
        kind, *parameters = (word.strip() for word in part.split(";"))
        given = next(filter(None, map(_WEIGHT.fullmatch, parameters)), None)
        found[kind] = max(found.get(kind, 0.0), 1.0 if given is None else float(given[1]))
    return found


def _unused(
    query: Query, items: Sequence[Item], is_known: Callable[[str], bool], path: str = ""
) -> Iterator[str]:
    """Yield the keys that restrict nothing, because the attribute is not supported."""
    for tag, key in query.items():
        if not is_known(tag) and not any(tag in item for item in items):
            if key != Key(key.vr):
                yield f"{path}{tag}"
        elif key.item:
            inner = [entry for item in items for entry in item.get(tag, {}).get("Value", ())]
            is_inner = partial(matching.is_known, level=tag)
            yield from _unused(key.item, inner, is_inner, f"{path}{tag}.")


def _shown(item: dict[str, Any], search: _Search, default: Sequence[str]) -> dict[str, Any]:
    shown = {"00080005": {"vr": "CS", "Value": ["ISO_IR 192"]}, **item}
    if search.fields is None or not default:
        return dict(sorted(shown.items()))
    wanted = {*default, *search.query, *search.fields}
    return {tag: element for tag, element in sorted(shown.items()) if tag in wanted}


def _read_search(request: Request) -> _Search:
    """Read the parameters of PS3.18 8.3.4. Raises WebRefused with the attribute."""
    parameters = [
        (name, value)
        for name, value in request.query_params.multi_items()
        if name not in _REPRESENTATION
    ]
    if len(parameters) > _MAX_KEYS:
        raise WebRefused(HTTPStatus.BAD_REQUEST, f"more than {_MAX_KEYS} parameters")
    tree: dict[str, Any] = {}
    fields: set[str] | None = set()
    limit, offset, fuzzy = None, 0, False
    _check_parameters(parameters)
    for name, value in parameters:
        match name.lower():
            case "limit":
                limit = _whole_number(name, value)
            case "offset":
                offset = _whole_number(name, value)
            case "fuzzymatching":
                fuzzy = _boolean(name, value)
            case "includefield":
                if value.lower() == "all":
                    fields = None
                elif fields is not None:
                    fields |= {_path(part, name)[0] for part in value.split(",")}
            case _:
                _add_key(tree, name, value)
    try:
        query = _keys(tree)
        matching.check(query)
    except BadKey as error:
        raise WebRefused(HTTPStatus.BAD_REQUEST, str(error), error.tag) from None
    chosen = None if fields is None else frozenset(fields)
    return _Search(query, chosen, limit, offset, fuzzy)


def _check_parameters(parameters: Sequence[tuple[str, str]]) -> None:
    names = Counter(name.lower() for name, _ in parameters)
    for name, value in parameters:
        if name.lower() in _ONCE and names[name.lower()] > 1:
            raise WebRefused(HTTPStatus.BAD_REQUEST, _REPEATED, name)
        if "\ufffd" in value:
            raise WebRefused(HTTPStatus.BAD_REQUEST, "is not encoded in UTF-8", name)


def _boolean(name: str, value: str) -> bool:
    if value.lower() not in {"true", "false"}:
        raise WebRefused(HTTPStatus.BAD_REQUEST, "write true or false", name)
    return value.lower() == "true"


def _whole_number(name: str, value: str) -> int:
    if not _NUMBER.fullmatch(value):
        raise WebRefused(HTTPStatus.BAD_REQUEST, "write a whole number", name)
    return int(value)


def _tag(name: str) -> str:
    """Return the tag of a keyword, or of eight hexadecimal digits."""
    if len(name) == 8 and all(sign in "0123456789abcdefABCDEF" for sign in name):  # noqa: PLR2004
        return name.upper()
    tag = tag_for_keyword(name) if name else None  # pydicom finds retired attributes for ""
    if tag is None:
        raise WebRefused(HTTPStatus.BAD_REQUEST, "unknown attribute", name)
    return f"{tag:08X}"


def _path(name: str, parameter: str = "") -> list[str]:
    """
    Return the tags of `ScheduledProcedureStepSequence.Modality`, from the outermost sequence.

    `parameter` is the parameter whose value the name is, if there is one.
    """
    parts = name.split(".")
    if not all(parts):  # pydicom knows an attribute without a keyword
        raise WebRefused(HTTPStatus.BAD_REQUEST, "lacks an attribute", name or parameter)
    tags = [_tag(part) for part in parts]
    if len(tags) > MAX_DEPTH + 1:
        raise WebRefused(HTTPStatus.BAD_REQUEST, "too many levels of sequences", tags[-1])
    if any(_vr(tag) not in ("SQ", "UN") for tag in tags[:-1]):
        raise WebRefused(HTTPStatus.BAD_REQUEST, _NO_SEQUENCE, name)
    return tags


def _add_key(tree: dict[str, Any], name: str, value: str) -> None:
    """Add a key to the tree."""
    *sequences, last = _path(name)
    at = tree
    for tag in sequences:
        inner = at.setdefault(tag, {})
        if not isinstance(inner, dict):
            raise WebRefused(HTTPStatus.BAD_REQUEST, _NO_SEQUENCE, name)
        at = inner
    if last in at:
        raise WebRefused(HTTPStatus.BAD_REQUEST, _REPEATED, name)
    at[last] = value


def _keys(tree: Mapping[str, Any]) -> Query:
    return {
        tag: Key("SQ", (), _keys(value)) if isinstance(value, dict) else _key(tag, value)
        for tag, value in tree.items()
    }


def _key(tag: str, value: str) -> Key:
    vr = _vr(tag)
    parts = value.replace(",", "\\").split("\\") if vr in {"UI", "CS", "AE"} else [value]
    texts = tuple(part.strip() for part in parts)
    if vr == "SQ" and any(texts):
        raise BadKey(tag, "is a sequence: name an attribute of its item")
    return Key(vr, texts if any(texts) else ())


def _vr(tag: str) -> str:
    try:
        return dictionary_VR(int(tag, 16))[:2]
    except KeyError:
        return "UN"


def _json(body: Any, status: HTTPStatus) -> Response:
    return Response(json.dumps(body, ensure_ascii=False), status, media_type=_JSON)


def _refuse_change(_request: Request) -> Response:
    """Refuse a transaction that changes a workitem; 404 would mean that there is no workitem."""
    status = HTTPStatus.METHOD_NOT_ALLOWED
    return problem(WebRefused(status, "workitems can only be read", headers={"allow": ""}))


def _missing() -> Response:
    return problem(WebRefused(HTTPStatus.NOT_FOUND, "there is no such workitem"))


def _no_route(_request: Request, error: Exception) -> Response:
    """Answer a request for an address that does not exist, or with a method that it has not."""
    if not isinstance(error, HTTPException):
        raise error
    status = HTTPStatus(error.status_code)
    response = problem(WebRefused(status, status.description))
    response.headers.update(error.headers or {})
    return response


def problem(error: WebRefused) -> Response:
    """Return an RFC 9457 body; `attribute` is the name in the request, or the tag."""
    body = {
        "type": "about:blank",
        "title": error.status.phrase,
        "status": error.status.value,
        "detail": error.detail,
        **({"attribute": error.attribute} if error.attribute else {}),
    }
    response = Response(
        json.dumps(body), error.status, error.headers, media_type="application/problem+json"
    )
    if error.status is HTTPStatus.UNAUTHORIZED:
        response.headers["www-authenticate"] = "Bearer"
    return response
