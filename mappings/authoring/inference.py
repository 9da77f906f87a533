"""
Inference of a definition from sample messages of a new sender, with evidence in comments.

The proposal must be reviewed: it is based on counts of values, not on their meaning. The character
set is inferred from the bytes, because MSH-18 is often wrong. Evidence contains locations, counts
and codes, but no values of patients.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from mappings.compiler import DEFINITIONS, compile_sources, read_folder
from mappings.hl7.charset import is_codec
from mappings.hl7.escapes import unescape
from mappings.hl7.message import Message, cut, pick
from mappings.hl7.refusals import MessageRefusal
from mappings.language.accessors import compile_path
from mappings.language.code_tables import UnmappedCode
from mappings.language.diagnostics import Diagnostics, MappingErrors, RuleFailed, YamlNode
from mappings.language.scope import ListenerDefaults, MessageScope, split_orders
from mappings.language.transforms import is_uid

_NOWHERE = YamlNode(None, "", 0, 0)
_ISO_8859_15_LETTERS = frozenset({0xA4, 0xA6, 0xA8, 0xB4, 0xB8, 0xBC, 0xBD, 0xBE})
"""Bytes with other letters in ISO 8859-15 than in 8859-1: €, Š, š, Ž, ž, Œ, œ, Ÿ."""
_LAST_C1 = 0x9F


@dataclass(frozen=True, slots=True)
class FieldStatistics:
    """The values of one location in all order groups."""

    path: str
    filled: int
    different: int
    longest: int
    digits: int
    """The number of values that contain a digit."""
    uids: bool
    """Whether all values are DICOM UIDs."""

    def describe(self, total: int) -> str:
        """Return the counts as text."""
        return f"{self.filled} of {total} groups, {self.different} different values"


@dataclass(frozen=True, slots=True)
class Samples:
    """The parsed messages and their order groups."""

    messages: tuple[Message, ...]
    groups: tuple[MessageScope, ...]
    unread: int

    def value(self, group: MessageScope, path: str) -> str:
        return compile_path(path, _NOWHERE, Diagnostics())(group)

    def field(self, path: str) -> FieldStatistics:
        get = compile_path(path, _NOWHERE, Diagnostics())
        values = [value for group in self.groups if (value := get(group))]
        return FieldStatistics(
            path,
            len(values),
            len(set(values)),
            max(map(len, values), default=0),
            sum(any(item.isdigit() for item in value) for value in values),
            bool(values) and all(map(is_uid, values)),
        )

    def z_fields(self) -> list[FieldStatistics]:
        """Return the statistics of all fields of Z segments with values, except set ids."""
        widths: dict[str, int] = {}
        for message in self.messages:
            for segment in message.segments:
                if segment.id.startswith("Z"):
                    widths[segment.id] = max(widths.get(segment.id, 0), len(segment))
        paths = [f"{name}-{at}.1" for name, width in widths.items() for at in range(1, width + 1)]
        found = [self.field(path) for path in paths]
        return [field for field in found if field.filled and not self._is_set_id(field)]

    def _is_set_id(self, field: FieldStatistics) -> bool:
        first = field.path.endswith("-1.1")
        return first and field.longest == 1 and field.digits == field.filled

    @property
    def most_repetitions(self) -> int:
        """The largest number of identifiers in PID-3."""
        return max((len(_identifiers(group)) for group in self.groups), default=0)

    def count_identifiers(self, component: int) -> Counter[str]:
        """
        Count the groups in which PID-3 has a repetition with each value of a component (CX-4,
        CX-5).
        """
        counts: Counter[str] = Counter()
        for group in self.groups:
            parts = [_part(identifier, component, group) for identifier in _identifiers(group)]
            counts.update({part for part in parts if part and not {"[", "]", "="} & set(part)})
        return counts


def _identifiers(group: MessageScope) -> list[str]:
    places = group.visible_positions("PID")
    text = group.message.segment(places[0]).field_text(3) if places else ""
    return [identifier for identifier in cut(text, group.delimiters.repetition) if identifier]


def _part(text: str, number: int, group: MessageScope) -> str:
    """Return the text of a component, or of its first subcomponent."""
    delimiters = group.delimiters
    component = pick(text, delimiters.component, number)
    part = pick(component, delimiters.subcomponent, 1)
    return unescape(part, delimiters, group.encoding).strip()


def read_samples(raw: Sequence[bytes]) -> Samples:
    """Parse messages. Malformed ones are counted and skipped."""
    charset, _ = charset_of(raw)
    defaults = ListenerDefaults("", "UTC", datetime.now(UTC))
    messages: list[Message] = []
    for payload in raw:
        try:
            messages.append(Message.parse(payload, fallback=charset))
        except MessageRefusal:
            continue
    groups = [group for message in messages for group in split_orders(message, defaults)]
    return Samples(tuple(messages), tuple(groups), len(raw) - len(messages))


def charset_of(raw: Sequence[bytes]) -> tuple[str, str]:
    """Infer the character set from the bytes; return it with the reason."""
    foreign = [payload for payload in raw if not payload.isascii()]
    if not foreign:
        return "utf-8", "All bytes are ASCII: any will do."
    others = [payload for payload in foreign if not _is_utf8(payload)]
    if not others:
        return "utf-8", f"{len(foreign)} samples have other letters, all valid UTF-8."
    seen = {byte for payload in others for byte in payload if byte > 0x7F}  # noqa: PLR2004  # ASCII
    why = f"{len(others)} of {len(foreign)} samples with other letters are no UTF-8"
    if any(byte <= _LAST_C1 for byte in seen):
        return "cp1252", f"{why}; bytes 80 to 9F are letters of Windows-1252 only."
    if seen & _ISO_8859_15_LETTERS:
        return "iso8859-15", f"{why}; some are the euro sign, Š, Ž, Œ or Ÿ of ISO 8859-15."
    return "iso8859-1", f"{why}; one byte a letter, the same in ISO 8859-1 and 8859-15."


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


ORDERS = ("ORM^", "OMG^", "OMI^")
MRN_PLACES = ("PID-3.1", "PID-2.1", "PID-4.1")
ACCESSION_PLACES = (
    *("IPC-1.1", "OBR-18.1", "OBR-3.2", "ORC-3.2", "OBR-3.1", "ORC-3.1"),
    *("OBR-20.1", "OBR-19.1", "OBR-2.1", "ORC-2.1"),
)
_ASSIGNERS = ("OBR-3.2", "ORC-3.2")
_NEARLY_ALL = 0.9  # share of the groups with a value
_HALF = 0.5  # several messages may be about one order: changes, cancellations
_LONGEST_ACCESSION = 16  # DICOM SH


@dataclass(frozen=True, slots=True)
class Proposal:
    """A definition as YAML with evidence in comments, and the character set of the listener."""

    text: str
    charset: str
    unread: int
    """The number of samples that could not be parsed."""


def infer_definition(raw: Sequence[bytes]) -> Proposal:
    """Propose a definition of orders from messages as received."""
    samples = read_samples(raw)
    charset, why = charset_of(raw)
    known = charset if is_codec(charset) else "utf-8"
    lines = [
        f"# Proposed from {len(samples.messages)} messages; {samples.unread} could not be read."
    ]
    lines += [f"# Charset of the listener: {charset}. {why}", "", "kind: orders"]
    lines += ["include: orders.yaml", *_accept(samples), *_tags(samples), *_metadata(samples)]
    lines += _controls(samples)
    lines += _unmapped_codes(samples, "\n".join(lines))
    return Proposal("\n".join(lines) + "\n", known, samples.unread)


def _accept(samples: Samples) -> list[str]:
    headers = [message.header for message in samples.messages]
    types = Counter(f"{header.message_code}^{header.trigger or 'O01'}" for header in headers)
    if not types:
        return []
    counted = ", ".join(f"{name} {count}" for name, count in types.most_common())
    lines = ["", f"# Types: {_printable(counted)}. Only orders belong here.", "accept:"]
    taken = [name for name in types if name.startswith(ORDERS)]
    lines += [f"  messages: [{', '.join(map(_quoted, taken or ['ORM^O01']))}]"]
    names = ("MSH-3.1", "MSH-4.1")
    found_senders = {
        tuple(message.value(name).strip() for name in names): None for message in samples.messages
    }
    senders = [
        f"    - {{application: {_quoted(application)}, facility: {_quoted(facility)}}}"
        for application, facility in found_senders
        if application or facility
    ]
    return [*lines, "  senders:", *senders] if senders else lines


def _tags(samples: Samples) -> list[str]:
    lines = ["", "tags:"]
    for tag, choose in (("PatientMRN", _mrn), ("Accession", _accession)):
        place, others, why = choose(samples)
        if not place:
            lines.append(f"  # {tag}: {why}")
            continue
        sources = ", ".join(map(_quoted, (place, *others)))
        lines += [f"  # {_printable(why)}", f"  {tag}: {{from: [{sources}], required: true}}"]
    uid = next((field for field in samples.z_fields() if field.uids), None)
    if uid is not None and uid.path != "ZDS-1.1":
        lines += [
            f"  # {uid.path} holds DICOM UIDs, {uid.describe(len(samples.groups))}.",
            "  StudyInstanceUID:",
            "    - {from: IPC-3.1, as: study-uid}",
            f"    - {{from: {uid.path}, as: study-uid}}",
        ]
    return lines if len(lines) > 2 else []  # noqa: PLR2004  # more than its heading


def _mrn(samples: Samples) -> tuple[str, list[str], str]:
    """
    Choose the location of the MRN.

    A repetition of type MR comes first, then one of an authority, then a filled field.
    """
    total = len(samples.groups)
    marked = samples.count_identifiers(5)
    if "MR" in marked and marked["MR"] >= _NEARLY_ALL * total:
        authorities = samples.count_identifiers(4)
        counted = f", by {len(authorities)} authorities" if authorities else ""
        why = f"PID-3 has a repetition marked MR in {marked['MR']} of {total} groups{counted}."
        return "PID-3[CX-5=MR].1", _filled(samples, MRN_PLACES, ""), why
    if samples.most_repetitions > 1 and (authorities := samples.count_identifiers(4)):
        name, count = authorities.most_common(1)[0]
        why = f"PID-3 marks none MR; authority {name} is in {count} of {total} groups."
        return f"PID-3[CX-4.1={name}].1", _filled(samples, MRN_PLACES, ""), why
    for path in MRN_PLACES:
        found = samples.field(path)
        if found.filled:
            why = f"{path} is filled in {found.describe(total)}; places before it are empty."
            return path, _filled(samples, MRN_PLACES, path), why
    return "", [], "no value in PID-3, PID-2 or PID-4 of any sample; name its place."


def _accession(samples: Samples) -> tuple[str, list[str], str]:
    """Choose the first location that is filled and differs between orders."""
    total = len(samples.groups)
    fields = [samples.field(path) for path in ACCESSION_PLACES]

    def suits(field: FieldStatistics) -> bool:
        differs = field.different >= _HALF * field.filled
        short = field.longest <= _LONGEST_ACCESSION
        return field.filled >= _HALF * total and differs and short and _is_number(field, total)

    is_chosen: Callable[[FieldStatistics], bool]
    for is_chosen in (suits, lambda field: field.filled > 0):
        for field in fields:
            if is_chosen(field):
                why = f"{field.path}: {field.describe(total)}, at most {field.longest} characters."
                fit = [other.path for other in fields if other is not field and suits(other)]
                why += f" As good: {', '.join(fit)}." if fit else ""
                return field.path, _filled(samples, ACCESSION_PLACES, field.path), why
    return "", [], "no number in any of the usual places; name its place."


def _is_number(field: FieldStatistics, total: int) -> bool:
    """True if a field contains numbers. OBR-3.2 and ORC-3.2 usually contain the assigner."""
    if field.path not in _ASSIGNERS:
        return True
    return (
        total > 1
        and field.different >= _NEARLY_ALL * total
        and field.digits >= _NEARLY_ALL * field.filled
    )


def _filled(samples: Samples, places: Sequence[str], first: str) -> list[str]:
    """Return further locations with values, for groups in which `first` is empty."""
    total = len(samples.groups)
    if first and samples.field(first).filled == total:
        return []
    return [
        path for path in places if path not in (first, *_ASSIGNERS) and samples.field(path).filled
    ]


def _metadata(samples: Samples) -> list[str]:
    total = len(samples.groups)
    found = [field for field in samples.z_fields() if not field.uids]
    if not found:
        return []
    lines = ["", "# Z segments are kept whole; fields that should have a name of their own:"]
    lines += ["metadata:", "  values:"]
    return lines + [
        f"    {field.path.replace('-', '_').replace('.', '_')}: {field.path}"
        f"        # {field.describe(total)}; rename it"
        for field in found
    ]


def _controls(samples: Samples) -> list[str]:
    total = len(samples.groups)
    codes = Counter(filter(None, (samples.value(group, "ORC-1") for group in samples.groups)))
    counted = ", ".join(f"{code} {count}" for code, count in codes.most_common())
    return (
        ["", f"# Order control, ORC-1 of {total} groups: {_printable(counted) or 'none'}."]
        if total
        else []
    )


def _unmapped_codes(samples: Samples, text: str) -> list[str]:
    try:
        mapping = compile_sources({**read_folder(DEFINITIONS), "proposal.yaml": text}, "proposal")
    except MappingErrors:
        return []
    found: Counter[UnmappedCode] = Counter()
    for message in samples.messages:
        codes: list[UnmappedCode] = []
        defaults = ListenerDefaults("", "UTC", datetime.now(UTC), codes)
        with suppress(MessageRefusal, RuleFailed):
            mapping.apply(message, defaults)  # type: ignore[union-attr]  # kind: orders
        found.update(dict.fromkeys(codes, 1))
    if not found:
        return []
    return ["", "# Codes that no code table has; add them to codes/, or they stay as they are:"] + [
        _printable(f"# {code.table}.csv: {code.code} in {code.place}, {count} messages")
        for code, count in found.most_common(_MAX_CODES)
    ]


_MAX_CODES = 50


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _printable(text: str) -> str:
    """Replace line breaks and control characters, so that a comment stays on its line."""
    return "".join(character if character.isprintable() else "?" for character in text)
