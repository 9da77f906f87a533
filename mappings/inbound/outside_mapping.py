"""
Outside mapping: ORU^R01 and MDM of other systems become outside reports.

An outside report is a document of the patient that was not made here. `number` names the document,
so that a correction is a version of it; `parent` names the document that this one replaces or
completes. A group without content adds no report if other groups have content, because its order
has their result too; nor does a final one, which would hide the text that came before. Groups with
one number are parts of one version: as versions of their own, one would hide the others. Only the
senders that the definition lists are accepted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

from mappings.hl7.message import Message, without_null
from mappings.hl7.refusals import (
    IdentifierTooLong,
    MessageRefusal,
    MissingField,
    TableValueNotFound,
    ValueTooLong,
)
from mappings.hl7.times import Precision, parse_timestamp
from mappings.inbound.events import OrderAction, OrderEvent, OutsideReport
from mappings.inbound.order_mapping import check_identity_rules, missing_site, other_numbers
from mappings.inbound.report_text import (
    MAX_PDF_FILES,
    MAX_TEXT_CHARACTERS,
    ReportContent,
    read_content,
)
from mappings.language.conditions import Condition, compile_condition
from mappings.language.diagnostics import Diagnostics, YamlNode
from mappings.language.rules import (
    MAX_VALUE_CHARACTERS,
    TAGS,
    CompilationContext,
    Rule,
    TagRule,
    compile_rule,
    compile_tags,
    fill,
    without_filters,
)
from mappings.language.scope import (
    ListenerDefaults,
    MessageScope,
    SegmentPositions,
    split_orders,
)
from parsers.pdf import MAX_PDF_BYTES

REPORT_MESSAGES: Final = ("ORU", "MDM")
KEYS: Final = ("tags", "order", "report", "report_status", "reported")
ORDER_KEYS: Final = ("placer", "filler")
REPORT_KEYS: Final = ("number", "parent", "status", "time", "title", "author")
REQUIRED: Final = ("number", "status")
OTHERWISE: Final = "*"
NO_STATUS: Final = "NONE"
"""The row for messages without a status."""
NO_CONTENT: Final = "no content"
NO_RESULT_YET: Final = "no result yet"
DOCUMENT: Final = "TXA"
MAX_SENDER_CHARACTERS: Final = 200


class OutsideStatus(StrEnum):
    """What a status code of a report means."""

    PRELIMINARY = "preliminary"
    FINAL = "final"
    ADDENDUM = "addendum"
    CORRECTED = "corrected"
    WITHDRAWN = "withdrawn"
    UNKNOWN = "unknown"
    IGNORE = "ignore"


_SHOWN_EMPTY: Final = frozenset({OutsideStatus.WITHDRAWN, OutsideStatus.PRELIMINARY})
"""Statuses that say something without a text: it is withdrawn, or no longer final."""

_PARTS: Final = (
    OutsideStatus.PRELIMINARY,
    OutsideStatus.CORRECTED,
    OutsideStatus.FINAL,
    OutsideStatus.UNKNOWN,
)
"""Statuses of the parts of one version; it has the first one that a part has."""


@dataclass(frozen=True, slots=True)
class OutsideRules:
    """A compiled definition of outside reports."""

    tags: dict[str, TagRule]
    order: dict[str, Rule]
    report: dict[str, Rule]
    paths: Mapping[str, Sequence[str]]
    """The paths of each rule of `report`, in order."""
    statuses: Mapping[str, OutsideStatus]
    reported: Condition | None

    def scopes(self, message: Message, defaults: ListenerDefaults) -> list[MessageScope]:
        """Split a message at its orders; a message with a TXA is one document."""
        if message.first(DOCUMENT) is None:
            return split_orders(message, defaults)
        own = SegmentPositions.of(range(len(message.names)), message.names)
        return [MessageScope(message, defaults, own, place=f"{DOCUMENT}[1]")]

    def refusals(self, scopes: Sequence[MessageScope], _: Message) -> list[MessageRefusal]:
        """Return why a message is refused."""
        if not scopes:
            return [MissingField("OBR")]
        found = [refusal for scope in scopes for refusal in self._refusals(scope)]
        return found or self._too_large(scopes)

    def patients(self, scopes: Sequence[MessageScope]) -> list[tuple[str, str]]:
        """Return site and MRN of each patient of a message, without duplicates."""
        pairs = [(self.site(scope), self.tags["PatientMRN"].value(scope)) for scope in scopes]
        return [pair for pair in dict.fromkeys(pairs) if pair[1]]

    def order_numbers(self, scopes: Sequence[MessageScope]) -> list[str]:
        """Return accession, placer and filler number of each group."""
        accession = self.tags.get("Accession")
        found = [accession.value(scope) for scope in scopes] if accession else []
        return found + [self._order(name, scope) for scope in scopes for name in ORDER_KEYS]

    def events(self, scopes: Sequence[MessageScope], message: Message) -> list[OrderEvent]:
        """Map all groups. Raises the first MessageRefusal of a message that was not checked."""
        for refusal in self.refusals(scopes, message):
            raise refusal
        contents = [read_content(scope) for scope in scopes]
        has_content = any(contents)
        return _with_parts(
            [
                self._event(scope, content, has_content=has_content)
                for scope, content in zip(scopes, contents, strict=True)
            ]
        )

    def site(self, scope: MessageScope) -> str:
        """Return the SiteID: the value of the mapping, else that of the listener."""
        rule = self.tags.get("SiteID")
        return (rule.value(scope) if rule else "") or scope.defaults.site

    def status(self, scope: MessageScope) -> OutsideStatus | None:
        """Return what the status code means; None if the definition does not know the code."""
        code = self._value("status", scope).upper() or NO_STATUS
        return self.statuses.get(code, self.statuses.get(OTHERWISE))

    def _value(self, name: str, scope: MessageScope) -> str:
        rule = self.report.get(name)
        return "" if rule is None else without_null(rule(scope))

    def _order(self, name: str, scope: MessageScope) -> str:
        rule = self.order.get(name)
        return "" if rule is None else without_null(rule(scope)).partition("^")[0].strip()

    def _refusals(self, scope: MessageScope) -> list[MessageRefusal]:
        found = [
            refusal for rule in self.tags.values() if (refusal := rule.refusal(scope)) is not None
        ]
        found = found or missing_site(self.tags["SiteID"], scope)
        if not any(
            name in self.tags and self.tags[name].value(scope)
            for name in ("PatientMRN", "Accession")
        ):
            found.append(MissingField(self.tags["PatientMRN"].place(scope)))
        for name in ("number", "parent"):
            value = self._value(name, scope)
            if len(value) > MAX_VALUE_CHARACTERS:
                found.append(IdentifierTooLong(self._place(name, scope)))
            elif name == "number" and not value:
                found.append(MissingField(self._place(name, scope)))
        if self.status(scope) is None:
            found.append(TableValueNotFound(self._place("status", scope)))
        try:
            read_content(scope)
        except MessageRefusal as refusal:
            found.append(refusal)
        return found

    def _too_large(self, scopes: Sequence[MessageScope]) -> list[MessageRefusal]:
        """Return why the parts of one version are refused."""
        parts: dict[str, list[MessageScope]] = {}
        for scope in scopes:
            parts.setdefault(self._value("number", scope), []).append(scope)
        for several in parts.values():
            contents = [read_content(scope) for scope in several] if several[1:] else []
            characters = sum(len(content.text) + MAX_VALUE_CHARACTERS for content in contents)
            pdfs = {pdf for content in contents for pdf in content.pdfs}
            if characters > MAX_TEXT_CHARACTERS or sum(map(len, pdfs)) > MAX_PDF_BYTES:
                return [ValueTooLong(several[-1].locate("OBX-5"))]
        return []

    def _place(self, name: str, scope: MessageScope) -> str:
        """Return the first path of a rule with a value, else the first whose segment was sent."""
        paths, segment = self.paths[name], scope.message.segment
        sent = [
            (path, segment(positions[0]).value(path.partition("-")[2]))
            for path in paths
            if (positions := scope.visible_positions(path.partition("-")[0]))
        ]
        valued = [path for path, value in sent if value]
        return scope.locate([*valued, *(path for path, _ in sent), *paths][0])

    def _event(
        self, scope: MessageScope, content: ReportContent, *, has_content: bool
    ) -> OrderEvent:
        """Map a group; `has_content`: any group of the message has content."""
        info = {**fill(self.tags, scope), "SiteID": self.site(scope)}
        status = self.status(scope) or OutsideStatus.UNKNOWN
        if content.is_deleted and status is not OutsideStatus.IGNORE:
            status = OutsideStatus.WITHDRAWN
        is_final = (
            self.reported is not None
            and self.reported(scope)
            and status is not OutsideStatus.WITHDRAWN
        )
        ignored = status is OutsideStatus.IGNORE
        is_empty = not content and (has_content or status not in _SHOWN_EMPTY)
        note = NO_RESULT_YET if ignored else NO_CONTENT if is_empty else ""
        return OrderEvent(
            action=OrderAction.IGNORE if ignored else OrderAction.OUTSIDE_REPORT,
            site=info["SiteID"],
            location="",
            mrn=info.get("PatientMRN", ""),
            accession=info.get("Accession", ""),
            clinical_info=info,
            reporting_app={},
            place=scope.place,
            placer=self._order("placer", scope),
            filler=self._order("filler", scope),
            result_status=self._value("status", scope) if is_final else "",
            other_mrns=other_numbers(scope, info.get("PatientMRN", ""), of_any_authority=True),
            note=note,
            outside=None if note else self._report(scope, status, content),
        )

    def _report(
        self, scope: MessageScope, status: OutsideStatus, content: ReportContent
    ) -> OutsideReport:
        names = [scope.message.value(path).strip() for path in ("MSH-3.1", "MSH-4.1")]
        return OutsideReport(
            sender="|".join(name[:MAX_SENDER_CHARACTERS] for name in names),
            number=self._value("number", scope),
            parent=self._value("parent", scope),
            status=status.value,
            code=self._value("status", scope)[:20],
            at=_moment(self._value("time", scope), scope.defaults.time_zone),
            title=self._value("title", scope)[:MAX_VALUE_CHARACTERS],
            author=self._value("author", scope)[:MAX_VALUE_CHARACTERS],
            text=content.text,
            pdfs=content.pdfs,
            omitted=content.omitted,
        )


def _with_parts(events: Sequence[OrderEvent]) -> list[OrderEvent]:
    """Give the first event of each version the parts of the others, which then name an order."""
    parts: dict[tuple[str, str, str, str], list[OrderEvent]] = {}
    for event in events:
        report = event.outside
        if report is not None and OutsideStatus(report.status) in _PARTS:
            named = (event.site, event.mrn, report.number, report.parent)
            parts.setdefault(named, []).append(event)
    found = list(events)
    for several in parts.values():
        if not several[1:]:
            continue
        whole = _joined([event.outside for event in several if event.outside is not None])
        is_open = whole.status == OutsideStatus.PRELIMINARY
        for event in several:
            outside = whole if event is several[0] else None
            code = "" if is_open else event.result_status
            place = next(at for at, one in enumerate(found) if one is event)
            found[place] = replace(event, outside=outside, result_status=code)
    return found


def _joined(parts: Sequence[OutsideReport]) -> OutsideReport:
    """Return one version of several parts; parts with other titles have them as headings."""
    status = min((OutsideStatus(part.status) for part in parts), key=_PARTS.index)
    titles = list(dict.fromkeys(part.title for part in parts if part.title))
    texts: dict[str, str] = {}  # a text that is sent with each order is one
    for part in parts:
        texts.setdefault(part.text, part.title)
    headed = [
        f"{title}\n{text}" if len(titles) > 1 and title and len(texts) > 1 else text
        for text, title in texts.items()
        if text
    ]
    pdfs = tuple(dict.fromkeys(pdf for part in parts for pdf in part.pdfs))
    omitted = tuple(dict.fromkeys(name for part in parts for name in part.omitted))
    omitted += ("PDF",) if len(pdfs) > MAX_PDF_FILES and "PDF" not in omitted else ()
    times = [part.at for part in parts if part.at is not None]
    return replace(
        parts[0],
        status=status.value,
        code=next(part.code for part in parts if part.status == status),
        at=max(times, default=None),
        title=", ".join(titles)[:MAX_VALUE_CHARACTERS],
        author=next((part.author for part in parts if part.author), ""),
        text="\n\n".join(headed),
        pdfs=pdfs[:MAX_PDF_FILES],
        omitted=omitted,
    )


def _moment(text: str, zone: str) -> int | None:
    """Return a time in ms; None for an empty or unknown one, and for a month."""
    stamp = parse_timestamp(text)
    if stamp is None or stamp.precision < Precision.DAY or stamp.local.year < 1970:  # noqa: PLR2004
        return None
    try:
        found = round(stamp.moment(ZoneInfo(zone)).astimezone(UTC).timestamp() * 1000)
    except OverflowError:
        return None
    return max(found, 0)


def require_reports(accept: YamlNode | None, diagnostics: Diagnostics) -> None:
    """Report accepted messages that are no reports: another definition reads orders."""
    messages = accept.get("messages") if accept is not None else None
    for item in diagnostics.read_items(messages) if messages is not None else ():
        text = diagnostics.read_text(item)
        if text.partition("^")[0] not in REPORT_MESSAGES:
            known = " and ".join(REPORT_MESSAGES)
            diagnostics.error(item, "accept", f"{text} has no report: outside reports are {known}")


def compile_outside(
    root: YamlNode, entries: dict[str, YamlNode], context: CompilationContext
) -> OutsideRules:
    """Compile the parts of a definition of kind `outside-reports`."""
    diagnostics = context.diagnostics
    diagnostics.needs_thread = True  # a document may be large
    tags = compile_tags(entries.get("tags"), context, TAGS)
    check_identity_rules(tags, ("SiteID",), entries.get("tags", root), context)
    if "PatientMRN" not in tags:
        place = entries.get("tags", root)
        diagnostics.error(place, "identity", "no rule for PatientMRN: whose report it is")
    order = diagnostics.read_mapping(entries["order"], ORDER_KEYS) if "order" in entries else {}
    rules: dict[str, Rule] = {}
    paths: dict[str, Sequence[str]] = dict.fromkeys(REQUIRED, ("MSH",))
    report = diagnostics.read_mapping(entries["report"], REPORT_KEYS) if "report" in entries else {}
    for name in REQUIRED:
        if name not in report:
            place = entries.get("report", root)
            diagnostics.error(place, "report", f"report needs `{name}`")
    for name, below in report.items():
        before = len(context.paths)
        rules[name] = compile_rule(below, context)
        paths[name] = [without_filters(path) for path in context.paths[before:]] or ["MSH"]
    statuses: dict[str, OutsideStatus] = {}
    codes = diagnostics.read_mapping(entries["report_status"]) if "report_status" in entries else {}
    for code, below in codes.items():
        word = diagnostics.read_choice(below, "status", list(OutsideStatus))
        if word is not None:
            statuses[code.strip().upper()] = OutsideStatus(word)
    if not codes:
        diagnostics.error(root, "report", "report_status is missing: what F, C, P … mean")
    return OutsideRules(
        tags,
        {name: compile_rule(below, context) for name, below in order.items()},
        rules,
        paths,
        statuses,
        compile_condition(entries["reported"], diagnostics) if "reported" in entries else None,
    )
