"""
Made-up messages: an example that a definition accepts, with a value in each field that it reads.

All values are invented. Pure.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from mappings.authoring.trial import try_message
from mappings.hl7.dictionary import Dictionary, names
from mappings.hl7.path import InvalidPath, Path
from mappings.inbound.definition import InboundMapping
from mappings.language.outline import Outline, OutlineRule
from mappings.language.scope import ListenerDefaults

NOW: Final = datetime(2026, 1, 5, 8, 30, tzinfo=UTC)
_HEADER: Final = (
    "MSH|^~\\&|SENDER|HOSPITAL|REPORT-BRIDGE|RADIOLOGY|20260105083000||{type}|MSG00001|{processing}"
    "|{version}"
)
_PATIENT: Final = (
    "PID|1||MRN1001^^^HOSPITAL^MR||SPECIMEN^SONJA^S||19800102|F",
    "PV1|1|O|RAD^ROOM^^HOSPITAL|||||12345^REFERRER^RITA|||||||||||V1001^^^HOSPITAL^VN",
)
_REQUEST: Final = (
    "OBR|1|P1001^HIS|F1001^HIS|71260^CT of the chest^L|||20260105090000|||||||||5^REFERRER^RITA||"
    "ACC1001||||||CT|||||||^Cough for three weeks"
)
_ORDER: Final = (
    "ORC|NW|P1001^HIS|F1001^HIS||SC||^^^20260105090000^^R||20260105082900|||12345^REFERRER^RITA",
    _REQUEST,
)
_STUDY: Final = "ZDS|1.2.826.0.1.3680043.8.498.1001^SENDER^Application^DICOM"
_MERGE: Final = "MRG|MRN0999^^^HOSPITAL^MR||||||SPECIMEN^SONJA^S"
_EVENT: Final = "EVN|A08|20260105083000"
_MESSAGES: Final = {
    "ORM": (*_PATIENT, *_ORDER, _STUDY),
    "OMG": (*_PATIENT, *_ORDER, _STUDY),
    "OMI": (
        *_PATIENT,
        *_ORDER,
        "IPC|ACC1001|RP1001|1.2.826.0.1.3680043.8.498.1001|SPS1001|CT",
    ),
    "ADT": (_EVENT, *_PATIENT),
}
_STRUCTURES: Final = {
    "ORM^O01": "ORM_O01",
    "OMG^O19": "OMG_O19",
    "OMI^O23": "OMI_O23",
    "ADT^A08": "ADT_A01",
    "ADT^A40": "ADT_A39",
}
_BY_TYPE: Final = {
    "TS": "20260105090000",
    "DTM": "20260105090000",
    "DT": "20260105",
    "TM": "0900",
    "NM": "1",
    "SI": "1",
}
_KINDS: Final = frozenset({"tag", "meta", "order", "app"})
_SEGMENTS: Final = (
    "MSH SFT EVN PID PD1 NK1 MRG PV1 PV2 IN1 IN2 GT1 AL1 IAM ORC TQ1 OBR IPC NTE PRT CTD DG1 OBX"
    " SPM ZDS TXA"
)
SEGMENT_ORDER: Final = tuple(_SEGMENTS.split())


class Draft:
    """The segments of a message, whose fields can be filled and emptied."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._segments = [line.split("|") for line in lines]

    def copy(self) -> "Draft":
        return Draft(self.lines())

    def lines(self) -> list[str]:
        return ["|".join(fields) for fields in self._segments]

    def encoded(self, codec: str) -> bytes:
        return "".join(f"{line}\r" for line in self.lines()).encode(codec, "replace")

    def value(self, segment: str, number: int) -> str:
        """Return a field of the first segment of this name."""
        fields, index = self._find(segment), _index(segment, number)
        return fields[index] if fields is not None and index < len(fields) else ""

    def set(self, path: Path, value: str) -> None:
        """Set a field, component or subcomponent of the first segment; add what is missing."""
        fields = self._find(path.segment)
        if fields is None:
            fields = self._add(path.segment)
        index = _index(path.segment, path.field)
        fields += [""] * (index + 1 - len(fields))
        fields[index] = _with_part(fields[index], (path.component, path.subcomponent), value)

    def without(self, segment: str, number: int) -> "Draft":
        """Return a copy with this field empty."""
        draft = self.copy()
        draft.set(Path(segment, number), "")
        return draft

    def places(self) -> list[tuple[str, int]]:
        """Return segment and number of each field with a value, without the header."""
        return [
            (fields[0], number)
            for fields in self._segments
            if fields[0] != "MSH"
            for number, text in enumerate(fields[1:], start=1)
            if text
        ]

    def _find(self, segment: str) -> list[str] | None:
        return next((fields for fields in self._segments if fields[0] == segment), None)

    def _add(self, segment: str) -> list[str]:
        fields = [segment]
        rank = _rank(segment)
        at = max(
            (
                position
                for position, known in enumerate(self._segments, start=1)
                if _rank(known[0]) <= rank
            ),
            default=1,
        )
        self._segments.insert(at, fields)
        return fields


def _rank(segment: str) -> int:
    return SEGMENT_ORDER.index(segment) if segment in SEGMENT_ORDER else len(SEGMENT_ORDER)


def _index(segment: str, number: int) -> int:
    return number - 1 if segment == "MSH" else number


def _with_part(text: str, numbers: tuple[int, int], value: str) -> str:
    """Replace a component, or a subcomponent of it; 0 is the whole."""
    component, subcomponent = numbers
    if not component:
        return value
    parts = _extended(text.split("^"), component)
    inner = parts[component - 1]
    if subcomponent:
        below = _extended(inner.split("&"), subcomponent)
        below[subcomponent - 1] = value
        value = "&".join(below)
    parts[component - 1] = value
    return "^".join(parts)


def _extended(parts: list[str], count: int) -> list[str]:
    return [*parts, *[""] * (count - len(parts))]


@dataclass(frozen=True, slots=True)
class MadeUpMessage:
    """An accepted message, and the fields without which it is refused."""

    draft: Draft
    required: frozenset[tuple[str, int]]


def made_up_message(
    mapping: InboundMapping,
    outline: Outline,
    codes: dict[str, str],
    *,
    site: str = "SITE1",
    charset: str = "utf-8",
    processing_id: str = "P",
) -> MadeUpMessage | None:
    """
    Return a message that a definition accepts; None if no made-up message is accepted.

    `codes` is the first code of each code table.
    """
    defaults = ListenerDefaults(site, "UTC", NOW)

    def is_accepted(draft: Draft) -> bool:
        return try_message(mapping, draft.encoded(charset), defaults, charset).accepted

    for kind in message_types(mapping):
        for version in _versions(mapping):
            base = _base(kind, version, processing_id)
            for number, name in header_names(mapping).items():
                base.set(Path("MSH", number), name.replace("*", "").replace("?", "1"))
            filled = _filled(base, outline, codes, names(version))
            for draft in (filled, base):
                if is_accepted(draft):
                    return MadeUpMessage(draft, _required(mapping, draft, is_accepted))
    return None


def header_names(mapping: InboundMapping) -> dict[int, str]:
    """Return the patterns of MSH-3 to MSH-6 that a definition demands, of its first sender."""
    pattern = next(iter(mapping.acceptance.senders), None)
    if pattern is None:
        return {}
    names = (
        pattern.application,
        pattern.facility,
        pattern.receiving_application,
        pattern.receiving_facility,
    )
    return {number: name for number, name in enumerate(names, start=3) if name}


_USUAL_VERSIONS: Final = ("2.5.1", "2.3.1", "2.3", "2.2")


def _versions(mapping: InboundMapping) -> list[str]:
    """Return the versions to try: usual ones, or others if the definition accepts no usual one."""
    accepted = mapping.acceptance.versions
    usual = [version for version in _USUAL_VERSIONS if not accepted or version in accepted]
    return usual or sorted(accepted, reverse=True)


def message_types(mapping: InboundMapping) -> list[str]:
    """Return the accepted types, such as `ORM^O01`; a pattern has an event of its own."""
    found = [
        f"{kind}^{event if event.isalnum() else 'A08'}"
        for kind, event in mapping.acceptance.messages
        if event or (kind, "") not in mapping.acceptance.messages
    ]
    usual = ("ORM^O01", "OMG^O19", "OMI^O23")
    ranks = {kind: rank for rank, kind in enumerate(usual)}
    return sorted(set(found), key=lambda kind: (ranks.get(kind, len(usual)), kind))


def _required(
    mapping: InboundMapping, draft: Draft, is_accepted: Callable[[Draft], bool]
) -> frozenset[tuple[str, int]]:
    if mapping.needs_thread:  # each trial would call its hooks
        return frozenset()
    return frozenset(place for place in draft.places() if not is_accepted(draft.without(*place)))


def _base(kind: str, version: str, processing_id: str) -> Draft:
    structure = _STRUCTURES.get(kind)
    named = f"{kind}^{structure}" if structure and version > "2.3" else kind
    header = _HEADER.format(type=named, processing=processing_id, version=version)
    return Draft([header, *_MESSAGES.get(kind[:3], _MESSAGES["ORM"])])


def _filled(base: Draft, outline: Outline, codes: dict[str, str], known: Dictionary) -> Draft:
    draft = base.copy()
    for rule in outline.rules:
        if rule.target.partition(":")[0] in _KINDS and rule.target != "order:control":
            _fill(draft, rule, codes, known)
    return draft


def _fill(draft: Draft, rule: OutlineRule, codes: dict[str, str], known: Dictionary) -> None:
    """Give the first source of a rule a value, unless one of its sources has one."""
    paths = [path for path in map(_path_of, rule.paths) if path is not None]
    is_own = any(path.segment.startswith("Z") for path in paths)
    if not is_own and rule.modifiers.get("required") != "true":
        return  # the usual fields of the base are enough for an example
    if not paths or any(draft.value(path.segment, path.field) for path in paths):
        return
    path = paths[0]
    table = rule.modifiers.get("codes", "") or next(
        (source.modifiers["codes"] for source in rule.sources if "codes" in source.modifiers), ""
    )
    draft.set(replace(path, occurrence=1), codes.get(table, "") or _value(path, rule, known))
    for chosen in path.filters:
        draft.set(Path(path.segment, path.field, chosen.component), chosen.value)


def _path_of(text: str) -> Path | None:
    try:
        path = Path.parse(text)
    except InvalidPath:
        return None
    usable = path.segment not in {"", "MSH"} and path.field > 0
    return path if usable else None


def _value(path: Path, rule: OutlineRule, known: Dictionary) -> str:
    info = known.field(path.segment, path.field)
    kind = info.type
    if path.component:
        kind = known.component(kind, path.component).type or kind
    if kind in _BY_TYPE:
        return _BY_TYPE[kind]
    name = rule.target.partition(":")[2]
    return f"{name} 1" if path.segment.startswith("Z") or not info.name else info.name
