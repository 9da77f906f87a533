"""
Parsers of the report service's JSON responses.

Pure. Unknown members are ignored. Missing optional members get a neutral value. Other errors raise
`UnreadableResponse`, which names the member and contains no value.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from bridge.contract import ReportStatus
from bridge.engine_client.models import (
    AccountInfo,
    ChangePage,
    EnrolmentLink,
    ExportedPerson,
    ExportedText,
    FeedRelease,
    LaunchResult,
    OrderKey,
    ReportChange,
    ReportExport,
    SignedInUser,
    StatusRecord,
    WorklistPage,
)

T = TypeVar("T")


class UnreadableResponse(ValueError):
    """A member of a response is missing or has the wrong type."""

    def __init__(self, place: str) -> None:
        super().__init__(f"unreadable member {place}")


def _object(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UnreadableResponse(place)
    return value


def _list(value: object, place: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise UnreadableResponse(place)
    return value


def _text(value: object, place: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UnreadableResponse(place)
    return value


def _number(value: object, place: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise UnreadableResponse(place)
    return value


def moment(value: object, place: str) -> int | None:
    """Read a time, given in milliseconds or in ISO 8601; return milliseconds."""
    if not isinstance(value, str):
        return _number(value, place)
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise UnreadableResponse(place) from None
    return round(found.replace(tzinfo=found.tzinfo or UTC).timestamp() * 1000)


def iso(milliseconds: int) -> str:
    """Write a time as ISO 8601 in UTC, as the report service expects it."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def _each(value: object, place: str, read: Callable[[object], T]) -> tuple[T, ...]:
    return tuple(read(each) for each in _list(value, place))


def order_key(value: object) -> OrderKey:
    """Read {SiteID, PatientMRN, Accession}."""
    body = _object(value, "clinicalInfo")
    return OrderKey(
        _text(body.get("SiteID"), "SiteID"),
        _text(body.get("PatientMRN"), "PatientMRN"),
        _text(body.get("Accession"), "Accession"),
    )


def status_record(value: object) -> StatusRecord:
    body = _object(value, "record")
    try:
        status = ReportStatus(_text(body.get("status"), "status"))
    except ValueError:
        raise UnreadableResponse("status") from None
    has_content = body.get("hasContent")
    return StatusRecord(
        report_id=_text(body.get("reportId"), "reportId"),
        status=status,
        user_email=_text(body.get("userEmail"), "userEmail"),
        unsign_until=_number(body.get("unsignUntil"), "unsignUntil"),
        orders=_each(body.get("clinicalInfo"), "clinicalInfo", order_key),
        has_content=has_content if isinstance(has_content, bool) else None,
        addendum_unsign_until=_number(body.get("addendumUnsignUntil"), "addendumUnsignUntil"),
    )


def status_records(value: object) -> tuple[StatusRecord, ...]:
    return _each(value, "records", status_record)


def signed_texts(value: object) -> tuple[tuple[StatusRecord, ReportExport | None], ...]:
    """Read status records with the texts of their reports; None for a record without text."""
    return _each(value, "records", _signed_text)


def _signed_text(value: object) -> tuple[StatusRecord, ReportExport | None]:
    text = _object(value, "record").get("text")
    return status_record(value), None if text is None else export(
        {**_object(text, "text"), "clinicalInfo": []}
    )


def launch_result(value: object) -> LaunchResult:
    body = _object(value, "launch")
    return LaunchResult(
        status=_text(body.get("status"), "status"),
        report_id=_text(body.get("reportId"), "reportId"),
        report_status=_text(body.get("reportStatus"), "reportStatus"),
    )


def ignore_body(_: object) -> None:
    """Ignore the response body."""


def text_member(name: str) -> Callable[[object], str]:
    """Make a reader of one text member, such as `content`."""
    return lambda value: _text(_object(value, name).get(name), name)


def _person(value: object) -> ExportedPerson | None:
    if not value:
        return None
    body = _object(value, "person")
    signature = body.get("signature")
    return ExportedPerson(
        _text(body.get("name"), "name"),
        _text(body.get("email"), "email"),
        signature if isinstance(signature, str) else None,
    )


def _exported_text(value: object) -> ExportedText:
    body = _object(value, "reportInfo")
    return ExportedText(
        _text(body.get("content"), "content"),
        _text(body.get("signedAt"), "signedAt") or None,
        _person(body.get("signedBy")),
    )


def export(value: object) -> ReportExport:
    """Read a JSON export record."""
    body = _object(value, "export")
    return ReportExport(
        site_info=_object(body.get("siteInfo") or {}, "siteInfo"),
        orders=_each(body.get("clinicalInfo"), "clinicalInfo", _tags),
        report=_exported_text(body.get("reportInfo") or {}),
        addenda=_each(body.get("addendumInfo") or [], "addendumInfo", _exported_text),
        prelims=_each(body.get("prelimInfo") or [], "prelimInfo", _tags),
    )


def _tags(value: object) -> Mapping[str, Any]:
    return _object(value, "clinicalInfo")


def _change(value: object) -> ReportChange:
    body = _object(value, "change")
    release = body.get("release")
    return ReportChange(
        cursor=_number(body.get("cursor"), "cursor") or 0,
        at=moment(body.get("at"), "at") or 0,
        event=_text(body.get("event"), "event"),
        record=status_record(body.get("record") or body.get("status") or body),
        orders=_each(body.get("orders") or [], "orders", _tags),
        release=None if release is None else _release(release),
        addenda=_number(body.get("addenda"), "addenda"),
        cancelled=body.get("cancelled") is True,
    )


def _release(value: object) -> FeedRelease:
    body = _object(value, "release")
    return FeedRelease(
        _text(body.get("kind"), "release.kind"),
        _number(body.get("sequence"), "release.sequence") or 0,
    )


def change_page(value: object) -> ChangePage:
    body = _object(value, "changes")
    changes = _each(body.get("changes") or body.get("items") or [], "changes", _change)
    cursor = _number(body.get("cursor") or body.get("next"), "cursor")
    if cursor is None:
        cursor = max((each.cursor for each in changes), default=0)
    return ChangePage(changes, cursor)


def worklist_page(value: object) -> WorklistPage:
    body = _object(value, "worklist")
    return WorklistPage(_each(body.get("items"), "items", _tags), str(body.get("next") or ""))


def account(value: object) -> AccountInfo:
    """Read an account. Raises UnreadableResponse."""
    if not isinstance(value, dict) or not isinstance(value.get("accountId"), str):
        raise UnreadableResponse("accountId")
    if not value["accountId"] or not isinstance(value.get("email"), str):
        raise UnreadableResponse("email")
    return AccountInfo(
        value["accountId"],
        value["email"],
        disabled=value.get("disabled") is not False,
        enrolled=value.get("enrolled") is True,
        sites=frozenset(map(str, value.get("sites") or ())),
        second_factor=value.get("secondFactor") is True,
        password=value.get("password") is True,
    )


def enrolment(value: object) -> EnrolmentLink:
    """Read an enrolment link. Raises UnreadableResponse."""
    if not isinstance(value, dict):
        raise UnreadableResponse("enrolment")
    link, until = value.get("link"), value.get("expiresAt")
    return EnrolmentLink(str(link) if link else None, moment(until, "expiresAt"))


def signed_in_user(value: object) -> SignedInUser:
    """Read a user's profile; the members that limit the session are required."""
    if not isinstance(value, dict):
        raise UnreadableResponse("profile")
    site, since = value.get("site", ""), moment(value.get("authenticatedAt"), "authenticatedAt")
    account_id, email = value.get("accountId"), value.get("email")
    if not isinstance(account_id, str) or not account_id:
        raise UnreadableResponse("accountId")
    if not isinstance(email, str):
        raise UnreadableResponse("email")
    if site == "" or not isinstance(site, str | None):
        raise UnreadableResponse("site")
    if since is None:
        raise UnreadableResponse("authenticatedAt")
    name, theme = (str(value.get(each) or "") for each in ("name", "theme"))
    return SignedInUser(
        account_id, email, name, theme, site, since, value.get("secondFactor") is True
    )
