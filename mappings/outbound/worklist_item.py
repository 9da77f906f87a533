"""
Worklist items: what a definition of the kind `worklist` makes of an order (PS3.4 annex K).

    steps: IPC                            one item for each IPC of a procedure; one if it has none
    item: {AccessionNumber: …}            attributes by keyword (PS3.6)
    step: {Modality: …}                   those of the one item of (0040,0100)

The value of an attribute is a text, a `$variable`, a list of values, or one of

    {echo: IPC-9.1}                       a field of the order, each repetition a value
    {metadata: [Weight, "BODY WEIGHT"]}   a Metadata key of the order, in any case
    {first: [a, b]}                       the first that has a value
    {value: …, codes: table}              translated

The VR decides the form: names, dates and times are converted, texts are cut at the length that
PS3.5 table 6.2-1 allows, and a value that does not fit is left out and named in `problems`. `echo`
reads the procedure of the step, and its own repeat of `steps`.

Items are DICOM JSON (PS3.18 annex F).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from mappings.hl7.escapes import unescape
from mappings.hl7.message import Field
from mappings.hl7.path import Path
from mappings.hl7.person_names import GROUPS, PersonName, dicom_name
from mappings.hl7.times import Precision, Timestamp, parse_timestamp
from mappings.hl7.versions import NEWEST_VERSION, REPEATS, VERSIONS
from mappings.inbound.procedures import split_procedures
from mappings.language.accessors import SEGMENTS, parse_path
from mappings.language.code_tables import UnmappedCode
from mappings.language.diagnostics import CodeRefused, YamlNode
from mappings.language.rules import CompilationContext
from mappings.language.transforms import is_uid
from mappings.outbound.echo import Echo
from mappings.outbound.results import ResultContext, ResultEvent, ResultOrder
from mappings.outbound.segments import UNKNOWN_CODES, Condition, compile_text, compile_when
from mappings.outbound.variables import RenderState

KEYS = ("steps", "when", "status", "step_status", "item", "step")
STEP_STATUSES = ("SCHEDULED", "ARRIVED", "READY", "STARTED", "COMPLETED", "DISCONTINUED")
"""Statuses that a definition gives to the steps of an open order."""
OTHERWISE = "*"
MAX_STEPS: Final = 50
_MAX_VALUES: Final = 50
ITEM_KEYS: Final = ("each", "unless", "when")
"""The keys of an item of a sequence that are no attributes."""
STEP_SEGMENTS: Final = ("IPC", "OBR", "TQ1")
"""The segments whose repeats can be steps, besides Z segments."""

Json = dict[str, Any]
Texts = Callable[[RenderState], list[str]]

_OF_STEP: Final = re.compile("Modality|PreMedication|RequestedContrastAgent|Scheduled.+")
"""Keywords of the item of the Scheduled Procedure Step Sequence (PS3.4 table K.6-1)."""
_WRITTEN_HERE: Final[Mapping[str, str]] = {
    "ScheduledProcedureStepSequence": "write its attributes in `step`",
    "ScheduledProcedureStepStatus": "write `status` and `step_status`",
    "SpecificCharacterSet": "the DICOM port chooses it for each peer",
}
"""Attributes that no rule writes, and what to do."""
_FIRST_GROUP: Final = 0x0008
"""Lower groups are of commands and files (PS3.5 §7.1, PS3.10 §7.1)."""
_STEP_SEQUENCE: Final = "00400100"
_STEP_ID: Final = "00400009"
_REQUIRED: Final = (
    *("PatientName", "PatientID", "StudyInstanceUID"),
    *("RequestedProcedureID", "ScheduledProcedureStepID"),
)
"""Attributes without which a modality cannot use an item (type 1, PS3.4 table K.6-1)."""
_OWN_NUMBERS: Final = frozenset({"RequestedProcedureID", "ScheduledProcedureStepID"})
"""Numbers of the scheduler alone: of one that is too long, the end is used."""
_IDENTIFIER: Final = re.compile(
    "(ID|UID|Number|Identifier|Designator|NumberImagingServiceRequest)$"
)
"""Keywords of values that are never cut: a part of a number is another number."""
_CUT: Final = {"SH": 16, "LO": 64, "ST": 1024, "LT": 10240, "UC": 10240, "UT": 10240}
"""The most characters of a text."""
_SEVERAL_LINES: Final = frozenset({"ST", "LT", "UT"})
_NAME_GROUP: Final = 64
_LONG_CODE: Final = ("00080119", "UC")
_CODE_VALUE: Final = "CodeValue"
_NUMBER: Final = re.compile(r"([+-]?\d+(?:[.,]\d+)?)\s*([A-Za-z]*)")
_MEASURES: Final[Mapping[str, Mapping[str, float]]] = {
    "PatientWeight": {"": 1, "kg": 1, "g": 0.001, "lb": 0.45359237, "lbs": 0.45359237},
    "PatientSize": {"m": 1, "cm": 0.01, "mm": 0.001, "in": 0.0254, "ft": 0.3048},
}
"""The units of measures, as parts of the unit of the attribute: kg, m."""
_TALLEST: Final = 3.0  # m; a size without unit above it is in cm
_INTEGERS: Final = frozenset({"US", "UL", "SS", "SL", "IS"})
_TIME: Final = re.compile(r"([01]\d|2[0-3])([0-5]\d([0-5]\d)?)?(\.\d{1,6})?")
_CODE: Final = re.compile(r"[A-Z0-9_ ]{1,16}")
_TITLE: Final = re.compile(r"[ -\[\]-~]{1,16}")


class DoesNotFit(ValueError):
    """A value that its attribute cannot have."""


@dataclass(frozen=True, slots=True)
class WorklistItem:
    """
    The item of one step, as DICOM JSON, and its status.

    `problems` are the keywords of attributes whose value does not fit, and of required ones
    without a value. An item that is not `usable` is not for a worklist.
    """

    item: Json
    status: str
    problems: tuple[str, ...] = ()
    usable: bool = True

    @property
    def step(self) -> Json:
        """The item of the Scheduled Procedure Step Sequence."""
        found: Json = self.item[_STEP_SEQUENCE]["Value"][0]
        return found

    def texts(self, tag: str) -> list[str]:
        """Return the values of an attribute of the item or of its step."""
        element = self.item.get(tag) or self.step.get(tag) or {}
        return [str(value) for value in element.get("Value", ())]

    def text(self, tag: str) -> str:
        return next(iter(self.texts(tag)), "")


@dataclass(frozen=True, slots=True)
class _Attribute:
    keyword: str
    tag: str
    vr: str
    multiple: bool
    texts: Texts | None = None
    items: tuple["_Item", ...] = ()
    first: bool = False
    """The items of the first entry that has any."""
    is_empty: bool = False
    """It never has a value."""

    def write(self, state: RenderState, problems: list[str]) -> tuple[str, Json]:
        """Return tag and element; an element without a value has its VR alone."""
        if self.texts is None:
            items = list[Json]()
            for item in self.items:
                items += item.write(state, problems)
                if items and self.first:
                    break
            return self.tag, {"vr": "SQ", "Value": items} if items else {"vr": "SQ"}
        chosen = self.texts(state)
        if not chosen:  # most attributes have no value
            return self.tag, {"vr": self.vr}
        chosen = list(dict.fromkeys(chosen))[: _MAX_VALUES if self.multiple else 1]
        tag, vr = self.tag, self.vr
        if self.keyword == _CODE_VALUE and len(chosen[0]) > _CUT[vr]:
            tag, vr = _LONG_CODE
        values = []
        for text in chosen:
            try:
                values.append(_written(self.keyword, vr, text, state.context.time_zone))
            except DoesNotFit:
                problems.append(self.keyword)
        values = [value for value in values if value not in ("", None)]
        return tag, {"vr": vr, "Value": values} if values else {"vr": vr}


@dataclass(frozen=True, slots=True)
class _Item:
    """An item of a sequence; it is left out if its first attribute has no value."""

    attributes: tuple[_Attribute, ...]
    each: Path | None = None
    """One item for each repetition of this field."""
    unless: Texts | None = None
    """No item if its first attribute has this value."""
    when: Condition | None = None

    def write(self, state: RenderState, problems: list[str]) -> Iterator[Json]:
        if not self.attributes or (self.when is not None and not self.when(state)):
            return
        states = [state] if self.each is None else _for_each(self.each, state)
        excluded = self.unless(state) if self.unless else ()
        for one in states:
            written = [attribute.write(one, problems) for attribute in self.attributes]
            first = written[0][1].get("Value")
            if first and not any(value in excluded for value in first):
                yield dict(written)


def _for_each(path: Path, state: RenderState) -> list[RenderState]:
    """Return a state for each repetition of a field, which is then its only one."""
    repetitions = state.echo.read(path).repetitions[:_MAX_VALUES]
    if len(repetitions) <= 1:  # the usual case
        return [state] * len(repetitions)
    found = []
    for repetition in repetitions:
        lines = state.echo.with_field(path, repetition.raw)
        found.append(replace(state, echo=Echo(lines)))
    return found


@dataclass(frozen=True, slots=True)
class WorklistMapping:
    """A compiled definition of the kind `worklist`. Immutable."""

    name: str
    version: str
    segment: str = ""
    """The segment whose repeats are steps."""
    when: Condition | None = field(default=None, repr=False)
    status: Texts | None = field(default=None, repr=False)
    statuses: Mapping[str, str] = field(default_factory=dict, repr=False)
    attributes: tuple[_Attribute, ...] = field(default=(), repr=False)
    step: _Item = field(default_factory=lambda: _Item(()), repr=False)
    files: tuple[str, ...] = ()
    needs_thread: bool = False

    def items(self, context: ResultContext) -> list[WorklistItem]:
        """
        Return the items of the first order of a context, in the order of its segments.

        There are none if `when` does not hold. Raises CodeRefused.
        """
        order = context.orders[0]
        found: list[WorklistItem] = []
        ids: set[str] = set()
        for number, lines in enumerate(self._steps(order.echo)[:MAX_STEPS], start=1):
            state = RenderState(context, order, Echo(lines), number, {})
            if self.when is None or self.when(state):
                found.append(self._item(state, ids))
        return found

    def _steps(self, echo: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the lines of each step: those of its procedure with its own repeat alone."""
        head, parts = split_procedures(echo, "")
        detailed = [part.lines for part in parts if part.has_detail]
        found = []
        for lines in detailed or [part.lines for part in parts[:1]] or [()]:
            is_own = [line[:3].upper() == self.segment for line in lines]
            own = [line for line, one in zip(lines, is_own, strict=True) if one]
            others = [line for line, one in zip(lines, is_own, strict=True) if not one]
            found += [(*head, *others, *([row] if row else [])) for row in own or [""]]
        return found

    def _item(self, state: RenderState, ids: set[str]) -> WorklistItem:
        problems: list[str] = []
        item = dict(attribute.write(state, problems) for attribute in self.attributes)
        step = dict(attribute.write(state, problems) for attribute in self.step.attributes)
        if own := step.get(_STEP_ID, {}).get("Value"):
            step[_STEP_ID] = {"vr": "SH", "Value": [_distinct(own[0], ids)]}
        item[_STEP_SEQUENCE] = {"vr": "SQ", "Value": [dict(sorted(step.items()))]}
        known = {attribute.keyword: attribute.tag for attribute in self._all()}
        missing = [
            keyword
            for keyword in _REQUIRED
            if not any(known.get(keyword) in one and one[known[keyword]].get("Value")
                       for one in (item, step) if keyword in known)
        ]  # fmt: skip
        codes = self.status(state) if self.status else []
        code = codes[0].upper() if codes else ""
        status = self.statuses.get(code) or self.statuses.get(OTHERWISE, STEP_STATUSES[0])
        return WorklistItem(
            dict(sorted(item.items())),
            status,
            tuple(dict.fromkeys([*missing, *problems])),
            usable=not missing,
        )

    def _all(self) -> tuple[_Attribute, ...]:
        return (*self.attributes, *self.step.attributes)


def worklist_context(
    order: ResultOrder,
    site: str,
    now: datetime,
    time_zone: str,
    unmapped: list[UnmappedCode] | None = None,
) -> ResultContext:
    """Return the context of an order; times with a zone are converted to `time_zone`."""
    return ResultContext(
        event=ResultEvent.ORDER_STATUS,
        control_id="",
        now=now,
        site=site,
        orders=(order,),
        time_zone=time_zone,
        unmapped_codes=unmapped,
    )


def _distinct(number: str, ids: set[str]) -> str:
    """Return a step id that no earlier step of the order has."""
    chosen, count = number, 1
    while chosen in ids:
        count += 1
        suffix = f"-{count}"
        chosen = number[: _CUT["SH"] - len(suffix)] + suffix
    ids.add(chosen)
    return chosen


def _written(keyword: str, vr: str, text: str, zone: str) -> Any:
    """Return the JSON form of a value. Raises DoesNotFit."""
    if vr == "PN":
        return _name(text)
    if vr in _WRITERS:
        return _WRITERS[vr](text.strip(), zone)
    if vr in _INTEGERS or vr in ("DS", "FD", "FL"):
        return _number(keyword, vr, text)
    return _text(keyword, vr, text)


def _text(keyword: str, vr: str, text: str) -> str:
    clean = text.strip()
    if not clean.isprintable():
        kept = "\r\n" if vr in _SEVERAL_LINES else ""
        clean = "".join(one if one.isprintable() or one in kept else " " for one in clean)
    if vr not in _SEVERAL_LINES:  # the backslash separates values
        clean = clean.replace("\\", "/")
    most = _CUT.get(vr)
    if most is None:
        raise DoesNotFit(keyword)
    if len(clean) <= most:
        return clean
    if keyword in _OWN_NUMBERS:
        return clean[-most:].strip()
    if _IDENTIFIER.search(keyword):
        raise DoesNotFit(keyword)
    return clean[:most].rstrip()


def _name(text: str) -> dict[str, str] | None:
    kinds = ("Alphabetic", "Ideographic", "Phonetic")
    groups = dict(zip(kinds, text.replace("\\", "/").split(GROUPS), strict=False))
    written = {
        kind: "^".join(_text("", "LO", part) for part in group.split("^")[:5])[:_NAME_GROUP]
        for kind, group in groups.items()
    }
    return {kind: group.rstrip("^") for kind, group in written.items() if group.strip("^ ")} or None


_parsed = lru_cache(maxsize=1024)(parse_timestamp)


def _local(text: str, zone: str) -> Timestamp:
    """Parse a time; one with a zone is converted. Raises DoesNotFit."""
    stamp = _parsed(text)
    if stamp is None:
        raise DoesNotFit(text)
    if stamp.offset is None or stamp.precision < Precision.HOUR:
        return stamp
    site = ZoneInfo(zone)
    return Timestamp(stamp.moment(site).astimezone(site).replace(tzinfo=None), stamp.precision)


def _date(text: str, zone: str) -> str:
    """Return YYYYMMDD; '' for a date that is less precise."""
    stamp = _local(text, zone)
    return stamp.date if stamp.precision >= Precision.DAY else ""


def _time(text: str, zone: str) -> str:
    """Return HHMM or HHMMSS, also of a date and time; '' for a date alone."""
    if _TIME.fullmatch(text):
        return text.partition(".")[0]
    return _local(text, zone).time.partition(".")[0]


def _has_time(text: str) -> bool:
    stamp = _parsed(text)
    return stamp is None or stamp.precision >= Precision.HOUR


def _date_time(text: str, zone: str) -> str:
    return _local(text, zone).digits.partition(".")[0]


def _code(text: str, _zone: str) -> str:
    code = text.upper()
    if not _CODE.fullmatch(code):
        raise DoesNotFit(text)
    return code


def _title(text: str, _zone: str) -> str:
    if not _TITLE.fullmatch(text):
        raise DoesNotFit(text)
    return text


def _uid(text: str, _zone: str) -> str:
    if not is_uid(text):
        raise DoesNotFit(text)
    return text


def _age(text: str, _zone: str) -> str:
    if not re.fullmatch(r"\d{3}[DWMY]", text):
        raise DoesNotFit(text)
    return text


_WRITERS: Final[Mapping[str, Callable[[str, str], str]]] = {
    "DA": _date,
    "TM": _time,
    "DT": _date_time,
    "CS": _code,
    "AE": _title,
    "UI": _uid,
    "AS": _age,
}


def _number(keyword: str, vr: str, text: str) -> int | float | None:
    found = _NUMBER.match(text.strip())
    if found is None:
        raise DoesNotFit(keyword)
    number, unit = float(found[1].replace(",", ".")), found[2].lower()
    units = _MEASURES.get(keyword)
    if units is not None:
        if not unit and keyword == "PatientSize":
            unit = "cm" if number > _TALLEST else "m"
        if unit not in units:
            raise DoesNotFit(keyword)
        number *= units[unit]
    if vr in _INTEGERS:
        if number != int(number) or not 0 <= number < 2**16:
            raise DoesNotFit(keyword)
        return int(number)
    return round(number, 6)


def compile_worklist(
    name: str, root: YamlNode, entries: dict[str, YamlNode], context: CompilationContext
) -> WorklistMapping:
    """Compile a definition of the kind `worklist`."""
    diagnostics = context.diagnostics
    for key in ("item", "step"):
        if key not in entries:
            diagnostics.error(root, key, f"{key} is missing: attributes by keyword")
    if (item := entries.get("item")) is not None and isinstance(item.value, dict):
        for keyword, below in item.value.items():
            if _OF_STEP.fullmatch(keyword) and keyword not in _WRITTEN_HERE:
                diagnostics.error(below.at_key(), "item", f"{keyword} is an attribute of `step`")
    attributes = _attributes(entries.get("item"), context)
    step = _attributes(entries.get("step"), context)
    known = {attribute.keyword for attribute in (*attributes, *step) if not attribute.is_empty}
    for keyword in _REQUIRED:
        if keyword not in known and {"item", "step"} <= entries.keys():
            diagnostics.error(root, "item", f"no rule for {keyword}: no item could be used")
    segment = diagnostics.read_text(entries["steps"]) if "steps" in entries else ""
    if segment and segment not in STEP_SEGMENTS and not re.fullmatch("Z[A-Z0-9]{2}", segment):
        if segment in SEGMENTS:
            known_here = ", ".join(STEP_SEGMENTS)
            message = f"the repeats of {segment} are no steps; give {known_here} or a Z segment"
            diagnostics.error(entries["steps"], "steps", message)
        else:
            diagnostics.unknown(entries["steps"], "segment", segment, STEP_SEGMENTS)
    statuses = diagnostics.read_mapping(entries["step_status"]) if "step_status" in entries else {}
    return WorklistMapping(
        name,
        "",
        segment,
        compile_when(entries["when"], context) if "when" in entries else None,
        _texts(entries["status"], _ANY, context) if "status" in entries else None,
        {
            code.upper(): diagnostics.read_choice(below, "status", STEP_STATUSES) or ""
            for code, below in statuses.items()
        },
        attributes,
        _Item(step),
        needs_thread=diagnostics.needs_thread,
    )


def _attributes(node: YamlNode | None, context: CompilationContext) -> tuple[_Attribute, ...]:
    entries = {} if node is None else context.diagnostics.read_mapping(node)
    found = (_attribute(keyword, below, context) for keyword, below in entries.items())
    return tuple(attribute for attribute in found if attribute is not None)


def _attribute(keyword: str, node: YamlNode, context: CompilationContext) -> _Attribute | None:
    # pydicom takes 0.3 s to load, and only definitions of this kind need it.
    from pydicom.datadict import (  # noqa: PLC0415  # see above
        dictionary_VM,
        dictionary_VR,
        keyword_dict,
        tag_for_keyword,
    )

    tag = tag_for_keyword(keyword)
    if tag is None:
        known = [word for word in keyword_dict if word]
        context.diagnostics.unknown(node.at_key(), "attribute", keyword, known)
        return None
    if keyword in _WRITTEN_HERE:
        message = f"{keyword} has no rule: {_WRITTEN_HERE[keyword]}"
        context.diagnostics.error(node.at_key(), "attribute", message)
        return None
    if tag >> 16 < _FIRST_GROUP:
        message = f"{keyword} is an attribute of commands or files, not of a worklist item"
        context.diagnostics.error(node.at_key(), "attribute", message)
        return None
    vr, multiple = dictionary_VR(tag), dictionary_VM(tag) != "1"
    is_empty = node.value in ("", None)
    attribute = _Attribute(keyword, f"{tag:08X}", vr, multiple, is_empty=is_empty)
    if vr == "SQ":
        first = node.get("first")
        nodes = context.diagnostics.read_items(first or node)
        items = tuple(_sequence_item(item, context) for item in nodes)
        return replace(attribute, items=items, first=first is not None)
    if vr not in {*_CUT, *_WRITERS, *_INTEGERS, "PN", "DS", "FD", "FL"}:
        message = f"{keyword} has the VR {vr}, which a worklist item cannot have"
        context.diagnostics.error(node.at_key(), "vr", message)
        return None
    if isinstance(node.value, list) and not multiple:
        message = f"{keyword} has one value (VM 1); `first` chooses among several"
        context.diagnostics.error(node, "vm", message)
    return replace(attribute, texts=_texts(node, attribute, context))


_ANY: Final = _Attribute("", "", "LO", multiple=True)
"""Any text: no attribute of the item."""


def _check_constant(
    attribute: _Attribute, text: str, node: YamlNode, context: CompilationContext
) -> None:
    try:
        written = _written(attribute.keyword, attribute.vr, text, "UTC")
    except DoesNotFit:
        written = None
    too_long = isinstance(written, str) and len(written) < len(text.strip())
    if (written in ("", None) or too_long) and text:
        message = f"{text!r} does not fit {attribute.keyword}, which has the VR {attribute.vr}"
        context.diagnostics.error(node, "vr", message)


def _sequence_item(node: YamlNode, context: CompilationContext) -> _Item:
    diagnostics = context.diagnostics
    entries = diagnostics.read_mapping(node)
    each, unless, when = (entries.get(key) for key in ITEM_KEYS)
    path = None
    if each is not None:
        path = parse_path(diagnostics.read_text(each), each, diagnostics)
        if path is not None and (path.component or not path.field):
            diagnostics.error(
                each, "path", "give a field, such as PID-3: its repetitions are items"
            )
    attributes = {key: below for key, below in entries.items() if key not in ITEM_KEYS}
    return _Item(
        _attributes(replace(node, value=attributes), context),
        path,
        None if unless is None else _texts(unless, _ANY, context),
        None if when is None else compile_when(when, context),
    )


def described(item: WorklistItem) -> dict[str, str]:
    """Return the attributes with a value, by keywords from the outermost one, in order."""
    from pydicom.datadict import keyword_for_tag  # noqa: PLC0415  # as in `_attribute`

    found: dict[str, str] = {}

    def add(within: str, elements: Json) -> None:
        for tag, element in elements.items():
            values = element.get("Value", ())
            name = f"{within}{keyword_for_tag(int(tag, 16))}"
            if element["vr"] == "SQ":
                for number, below in enumerate(values, start=1):
                    add(f"{name}[{number}].", below)
            elif values:
                texts = ("=".join(v.values()) if isinstance(v, dict) else str(v) for v in values)
                found[name] = "\\".join(texts)

    add("", item.item)
    return found


def _texts(node: YamlNode, attribute: _Attribute, context: CompilationContext) -> Texts:
    """Compile a value to a function of its texts; none is empty."""
    if isinstance(node.value, list):
        parts = [_texts(item, attribute, context) for item in node.value]
        return lambda state: [text for part in parts for text in part(state)]
    if isinstance(node.value, dict):
        return _from_mapping(node, node.value, attribute, context)
    if isinstance(node.value, str) and "$" not in node.value and attribute is not _ANY:
        _check_constant(attribute, node.value, node, context)
    variable = compile_text(node, context)

    def get(state: RenderState) -> list[str]:
        value = variable(state)
        return [unescape(value)] if value else []

    return get


def _from_mapping(
    node: YamlNode,
    entries: Mapping[str, YamlNode],
    attribute: _Attribute,
    context: CompilationContext,
) -> Texts:
    kind = next((kind for kind in VALUE_KINDS if kind in entries), None)
    if kind is None:
        context.diagnostics.error(node, "value", f"give one of {', '.join(VALUE_KINDS)}")
        return lambda state: []
    context.diagnostics.read_mapping(node, (kind, *VALUE_KINDS[kind], "when"))
    compiled = _COMPILERS[kind](node, attribute, context)
    if (when := entries.get("when")) is None:
        return compiled
    condition = compile_when(when, context)
    return lambda state: compiled(state) if condition(state) else []


def _first(node: YamlNode, attribute: _Attribute, context: CompilationContext) -> Texts:
    items = context.diagnostics.read_items(node["first"])
    if not items:
        context.diagnostics.error(node["first"], "value", "give at least one value")
    parts = [_texts(item, attribute, context) for item in items]
    return lambda state: next((found for part in parts if (found := part(state))), [])


def _metadata(node: YamlNode, _: _Attribute, context: CompilationContext) -> Texts:
    wanted = [text.casefold() for text in context.diagnostics.read_texts(node["metadata"])]
    if not wanted:
        context.diagnostics.error(node["metadata"], "value", "give at least one key")

    def get(state: RenderState) -> list[str]:
        known = {key.casefold(): value for key, value in state.order.metadata.items()}
        found = (known.get(key) for key in wanted)
        text = next((value for value in found if isinstance(value, str) and value.strip()), "")
        return [text] if text else []

    return get


def _value(node: YamlNode, attribute: _Attribute, context: CompilationContext) -> Texts:
    """Translate each value with a code table."""
    translates = node.get("codes") is not None or node.get("codes_back") is not None
    inner = _texts(node["value"], _ANY if translates else attribute, context)
    unknown, policy = node.get("unknown"), "keep"
    if unknown is not None:
        policy = context.diagnostics.read_choice(unknown, "policy", UNKNOWN_CODES) or policy
    codes, back = node.get("codes"), node.get("codes_back")
    table_node = codes or back
    table = None if table_node is None else context.table(table_node)
    if table is None:
        return inner
    look_up = table.value if codes else table.code
    echo = node["value"].get("echo")
    place = context.diagnostics.read_text(echo) if echo is not None else "$"
    unmapped = UnmappedCode(table.name, "", place, policy, back=codes is None)

    def get(state: RenderState) -> list[str]:
        found = []
        for text in inner(state):
            code = look_up(text)
            if code is None and state.context.unmapped_codes is not None:
                state.context.unmapped_codes.append(unmapped._replace(code=text))
            if code is None and policy == "refuse":
                raise CodeRefused(unmapped.table, unmapped.place)
            found.append(code if code is not None else "" if policy == "empty" else text)
        return [text for text in found if text]

    return get


def _echo(node: YamlNode, attribute: _Attribute, context: CompilationContext) -> Texts:
    diagnostics, vr = context.diagnostics, attribute.vr
    path = parse_path(diagnostics.read_text(node["echo"]), node["echo"], diagnostics)
    if path is None:
        return lambda state: []
    if vr == "PN" and not path.component:
        names = _given_names if _data_type(path) == "XPN" else _provider_names
        return lambda state: names(state.echo.read(path))
    if vr == "UI":  # not each ZDS is that of IHE
        return lambda state: list(filter(is_uid, state.echo.values(path)))
    if vr == "TM":  # a start may be a date alone
        return lambda state: list(filter(_has_time, state.echo.values(path)))
    return lambda state: state.echo.values(path)


def _data_type(path: Path) -> str:
    kinds = VERSIONS[NEWEST_VERSION].fields.get(path.segment, ())
    return kinds[path.field - 1].removesuffix(REPEATS) if 0 < path.field <= len(kinds) else ""


def _given_names(sent: Field) -> list[str]:
    name = dicom_name(sent)
    return [name] if name else []


def _provider_names(sent: Field) -> list[str]:
    """Return the names of XCN, or NDL, whose first component has them in subcomponents."""
    found = []
    for repetition in sent.repetitions:
        chosen = repetition
        inner = repetition.component(1).subcomponents
        if len(inner) > 1:
            text = sent.syntax.delimiters.component.join(part.raw for part in inner)
            chosen = Field(text, sent.syntax).repetition()
        found.append(PersonName.from_xcn(chosen).dicom)
    return [name for name in found if name.strip("^")]


VALUE_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "echo": (),
    "metadata": (),
    "first": (),
    "value": ("codes", "codes_back", "unknown"),
}
"""The kinds of values that are mappings, with the keys that each may have besides `when`."""
_COMPILERS: Final[Mapping[str, Callable[[YamlNode, _Attribute, CompilationContext], Texts]]] = {
    "echo": _echo,
    "metadata": _metadata,
    "first": _first,
    "value": _value,
}
