"""
Trace of a message: for each order or patient, where the value of each tag, of Metadata and of the
order comes from, and why other sources were not used.

The rules are evaluated a second time (`mappings.language.trace`). Each value is compared with the
one that `InboundMapping.apply` maps; a target whose values differ is not `explained`. Hooks are
called once more.

A trace contains patient data and must not be logged.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from mappings.hl7.message import NULL, Message, without_null
from mappings.hl7.refusals import MessageRefusal
from mappings.inbound.definition import InboundMapping
from mappings.inbound.events import OrderAction, OrderEvent
from mappings.inbound.order_mapping import OMITTED, PARENTS, OrderRules
from mappings.inbound.outside_mapping import NO_STATUS, OutsideRules
from mappings.inbound.patient_mapping import OTHERWISE, PatientRules
from mappings.language.conditions import Condition, compile_condition
from mappings.language.diagnostics import Diagnostics, RuleFailed, YamlNode
from mappings.language.outline import Outline, OutlineRule, condition_words, outline
from mappings.language.places import PlaceNames
from mappings.language.rules import (
    MAX_VALUE_CHARACTERS,
    NEVER_DELETED,
    CompilationContext,
    TagRule,
    shortened,
)
from mappings.language.scope import ListenerDefaults, MessageScope, is_imaging
from mappings.language.trace import (
    Outcome,
    RuleTrace,
    SourceTrace,
    TracedRule,
    TraceStep,
    compile_trace,
)

MAX_GROUPS = 25
"""Groups of one answer. A message may have a thousand."""
MAX_KEYS = 200
"""Keys of Metadata that one group gets from segments."""


@dataclass(frozen=True, slots=True)
class TargetTrace:
    """
    The value of a target and its sources.

    `present`: the event has the target; an empty value then deletes the stored one. `explained`:
    the traced value is the mapped one. `steps` change a value that several sources form.
    """

    target: str
    value: str
    present: bool
    explained: bool
    file: str
    line: int
    sources: tuple[SourceTrace, ...] = ()
    steps: tuple[TraceStep, ...] = ()


@dataclass(frozen=True, slots=True)
class RowTrace:
    """The row of the table that decided: `NW/A` of order control, or `A08` of events."""

    key: str
    text: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class EventTrace:
    """The trace of one group; `action` is empty if the message has no event for it."""

    place: str
    action: str
    note: str
    site: str
    mrn: str
    accession: str
    row: RowTrace | None
    targets: tuple[TargetTrace, ...]
    links: tuple[str, ...] = ()
    """The link signals, such as `study-uid=1.2.3`."""


@dataclass(frozen=True, slots=True)
class RefusalTrace:
    """Why the message is refused or parked, and the rule that decided, if it is one."""

    code: str
    place: str
    text: str
    target: str = ""
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class MessageTrace:
    definition: str
    version: str
    events: tuple[EventTrace, ...]
    refusal: RefusalTrace | None
    left: int = 0
    """The groups after those of this trace."""


def _never() -> bool:
    return False


def trace(
    mapping: InboundMapping,
    message: Message,
    defaults: ListenerDefaults,
    *,
    first: int = 0,
    late: Callable[[], bool] = _never,
) -> MessageTrace:
    """
    Trace `MAX_GROUPS` groups of a message from the n-th on, counted from 0. Raises nothing.

    If a time limit has expired (`late`), fewer groups are traced, but at least one.
    """
    defaults = defaults._replace(unmapped_codes=None)
    traced = _traced(_Known(mapping.name, mapping.version, mapping))
    refusal, events = _mapped(mapping, message, defaults)
    try:
        scopes = mapping.plan.scopes(message, defaults)
    except MessageRefusal:
        scopes = []
    names, shown = PlaceNames(message), scopes[first : first + MAX_GROUPS]
    pairs = zip(shown, _events_of(scopes, events)[first : first + MAX_GROUPS], strict=True)
    found: list[EventTrace] = []
    for scope, event in pairs:
        if found and late():
            break
        found.append(traced.event(mapping, scope, event, names))
    if refusal is not None:
        refusal = traced.blamed(refusal, mapping, shown)
    left = max(0, len(scopes) - first - len(found))
    return MessageTrace(mapping.name, mapping.version, tuple(found), refusal, left)


def _mapped(
    mapping: InboundMapping, message: Message, defaults: ListenerDefaults
) -> tuple[RefusalTrace | None, Sequence[OrderEvent]]:
    """Return why a message is refused or parked, or its events."""
    refusals = mapping.pre_check(message, defaults).refusals
    if refusals:
        return _refusal(refusals[0]), ()
    try:
        return None, mapping.apply(message, defaults)
    except MessageRefusal as refused:
        return _refusal(refused), ()
    except RuleFailed as failure:
        return RefusalTrace("parked", "", str(failure)), ()


def _events_of(
    scopes: Sequence[MessageScope], events: Sequence[OrderEvent]
) -> list[OrderEvent | None]:
    """
    Return the event of each group; the first one of a merge of several numbers.

    A patient with several MRG has several groups at one place. If their events cannot be
    distinguished, they have none here.
    """
    by_place: dict[str, list[OrderEvent]] = {}
    for event in events:
        by_place.setdefault(event.place, []).append(event)
    counts = Counter(scope.place for scope in scopes)
    found: list[OrderEvent | None] = []
    seen: Counter[str] = Counter()
    for scope in scopes:
        own = by_place.get(scope.place, [])
        number, seen[scope.place] = seen[scope.place], seen[scope.place] + 1
        alone = counts[scope.place] == 1
        if own and (alone or len(own) == counts[scope.place]):
            found.append(own[0 if alone else number])
        else:
            found.append(None)
    return found


def _refusal(refusal: MessageRefusal) -> RefusalTrace:
    return RefusalTrace(refusal.error_code.value, refusal.place, refusal.text)


@dataclass(frozen=True, slots=True)
class _Known:
    """A definition as the key of a cache: a version is a hash of its texts."""

    name: str
    version: str
    mapping: InboundMapping = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class _Target:
    outlined: OutlineRule
    rule: TracedRule
    condition: Condition | None = None

    @property
    def name(self) -> str:
        return self.outlined.target


@dataclass(frozen=True, slots=True)
class _Only:
    """The condition that selects the orders of a definition, with the paths that it reads."""

    outlined: OutlineRule
    condition: Condition
    paths: tuple[TracedRule, ...]

    def trace(self, scope: MessageScope, names: PlaceNames) -> TargetTrace:
        rule, holds = self.outlined, self.condition(scope)
        text = SourceTrace(
            condition_words(rule.node),
            *(rule.file, rule.line, Outcome.USED if holds else Outcome.CONDITION),
            kind="condition",
        )
        sources = [source for path in self.paths for source in path.evaluate(scope, names).sources]
        value = "holds" if holds else "does not hold"
        return TargetTrace("only", value, True, True, rule.file, rule.line, (text, *sources))


@dataclass(frozen=True, slots=True)
class _Loop:
    """The rule that makes a key of Metadata for each segment of a name."""

    outlined: OutlineRule
    segment: str
    key: TracedRule
    value: TracedRule
    condition: Condition | None


@lru_cache(maxsize=8)
def _traced(known: _Known) -> "_TracedDefinition":
    """Compile the rules of a definition for traces. It was compiled before, so it has no errors."""
    context = CompilationContext(known.mapping.sources, Diagnostics())
    outlined = outline(known.mapping.sources, known.name)
    targets, loops = [], []
    for rule in outlined.rules:
        kind = rule.target.partition(":")[0]
        if kind == "each":
            loops.append(_loop(rule, context))
        elif kind == "link":
            targets += _link(rule, context)
        elif kind in _RULES:
            targets.append(_Target(rule, compile_trace(rule.node, context)))
    rows = {
        _row_key(rule.target): rule
        for rule in outlined.rules
        if rule.target.startswith(("row:", "event:", "report-status:"))
    }
    only = outlined.rule("only")
    return _TracedDefinition(
        outlined,
        tuple(targets),
        tuple(loops),
        rows,
        None if only is None else _only(only, context),
    )


def _row_key(target: str) -> str:
    """Return the name of a row without blanks: `row:NW / A` is the row `row:NW/A`."""
    return "/".join(part.strip() for part in target.split("/")).removesuffix("/")


def _only(rule: OutlineRule, context: CompilationContext) -> "_Only":
    paths = [compile_trace(replace(rule.node, value=path), context) for path in rule.paths]
    return _Only(rule, compile_condition(rule.node, context.diagnostics), tuple(paths))


_RULES = frozenset({"tag", "meta", "app", "order", "prior_mrn", "prior_name", "visit"}) | {
    "visit-value",
    "report",
}


def _link(rule: OutlineRule, context: CompilationContext) -> list[_Target]:
    """Return the target of a signal that is on and has a value."""
    value = rule.node.get("value")
    on = rule.modifiers.get("on", "true").lower()
    if value is None or on in ("false", "off", "no"):
        return []
    return [_Target(rule, compile_trace(value, context), _condition(rule.node, context))]


def _condition(node: YamlNode, context: CompilationContext) -> Condition | None:
    when = node.get("when")
    return None if when is None else compile_condition(when, context.diagnostics)


def _loop(rule: OutlineRule, context: CompilationContext) -> _Loop:
    node = rule.node
    return _Loop(
        rule,
        context.diagnostics.read_text(node["segment"]),
        compile_trace(node["key"], context),
        compile_trace(node["value"], context),
        _condition(node, context),
    )


@dataclass(frozen=True, slots=True)
class _TracedDefinition:
    outlined: Outline
    targets: tuple[_Target, ...]
    loops: tuple[_Loop, ...]
    rows: Mapping[str, OutlineRule]
    only: _Only | None

    def event(
        self,
        mapping: InboundMapping,
        scope: MessageScope,
        event: OrderEvent | None,
        names: PlaceNames,
    ) -> EventTrace:
        if isinstance(mapping.plan, OrderRules):
            return self._order(mapping.plan, scope, event, names)
        if isinstance(mapping.plan, OutsideRules):
            return self._outside(mapping.plan, scope, event, names)
        return self._patient(mapping.plan, scope, event, names)

    def _order(
        self, plan: OrderRules, scope: MessageScope, event: OrderEvent | None, names: PlaceNames
    ) -> EventTrace:
        wanted = is_imaging(scope) and (plan.only is None or plan.only(scope))
        targets = [] if self.only is None else [self.only.trace(scope, names)]
        if wanted:
            expected = _expected(plan, scope, event)
            targets += [self._target(one, scope, names, expected) for one in self.targets]
            keys = [target for target in targets if target.target.startswith("meta:")]
            targets = _joined([*targets, *self._metadata(plan, scope, names, event, keys)])
        else:
            identity = {"tag:SiteID", "tag:PatientMRN"}
            expected = _expected_of_ignored(event)
            targets += [
                self._target(one, scope, names, expected)
                for one in self.targets
                if one.name in identity
            ]
        values = {target.target: target.value for target in targets}
        row = None
        if wanted:
            codes = ("order:control", "order:status", "order:result_status")
            control, status, result = (values.get(code, "") for code in codes)
            both = f"{control}/{status}"
            own = (f"{both}/{result}".upper(),) if result else ()
            row = self._row("row", (*own, both, both.upper(), control))
        return EventTrace(
            *(scope.place, event.action.value if event else "", event.note if event else ""),
            values.get("tag:SiteID", ""),
            values.get("tag:PatientMRN", ""),
            values.get("tag:Accession", ""),
            row,
            tuple(target for target in targets if target.present or target.sources),
            tuple(f"{one.kind}={one.value}" for one in event.link_signals) if event else (),
        )

    def _patient(
        self, plan: PatientRules, scope: MessageScope, event: OrderEvent | None, names: PlaceNames
    ) -> EventTrace:
        expected = _expected_of_patient(plan, scope, event)
        targets = [self._target(one, scope, names, expected) for one in self.targets]
        values = {target.target: target.value for target in targets}
        trigger = scope.message.header.trigger or scope.message.value("EVN-1").strip()
        return EventTrace(
            *(scope.place, event.action.value if event else "", event.note if event else ""),
            *(values.get("tag:SiteID", ""), values.get("tag:PatientMRN", ""), ""),
            self._row("event", (trigger, OTHERWISE)),
            tuple(target for target in targets if target.present or target.sources),
        )

    def _outside(
        self, plan: OutsideRules, scope: MessageScope, event: OrderEvent | None, names: PlaceNames
    ) -> EventTrace:
        expected = _expected_of_outside(plan, scope, event)
        targets = [self._target(one, scope, names, expected) for one in self.targets]
        values = {target.target: target.value for target in targets}
        return EventTrace(
            *(scope.place, event.action.value if event else "", event.note if event else ""),
            values.get("tag:SiteID", ""),
            values.get("tag:PatientMRN", ""),
            values.get("tag:Accession", ""),
            self._row(
                "report-status", (values.get("report:status", "").upper() or NO_STATUS, OTHERWISE)
            ),
            tuple(target for target in targets if target.present or target.sources),
        )

    def _row(self, kind: str, keys: Sequence[str]) -> RowTrace | None:
        """Return the first row of a table that applies."""
        for key in keys:
            rule = self.rows.get(_row_key(f"{kind}:{key}"))
            if rule is not None:
                return RowTrace(key.removesuffix("/"), _text_of(rule), rule.file, rule.line)
        return None

    def _target(
        self,
        target: _Target,
        scope: MessageScope,
        names: PlaceNames,
        expected: "Mapping[str, str | None]",
    ) -> TargetTrace:
        """Trace a target. `expected` has the mapped values; None: the event has none."""
        rule = target.outlined
        if target.condition is not None and not target.condition(scope):
            sources = target.rule.unused(scope, names, Outcome.CONDITION, rule.condition)
            found = RuleTrace("", tuple(sources))
        else:
            found = target.rule.evaluate(scope, names)
        found = _as_filled(target.name, found, scope, rule)
        value = None if found.value == "" else "" if found.value == NULL else found.value
        mapped = expected.get(target.name, value) if not found.ended else value
        return TargetTrace(
            target.name,
            value or "",
            value is not None,
            value == mapped,
            rule.file,
            rule.line,
            found.sources,
            found.steps,
        )

    def _metadata(
        self,
        plan: OrderRules,
        scope: MessageScope,
        names: PlaceNames,
        event: OrderEvent | None,
        before: Sequence[TargetTrace],
    ) -> Iterator[TargetTrace]:
        """Yield the keys that segments make, and whole segments that are kept."""
        mapped: Mapping[str, str] = event.clinical_info.get("Metadata", {}) if event else {}
        filled = {target.target.removeprefix("meta:") for target in before if target.present}
        for loop in self.loops:
            yield from _looped(loop, scope, names, filled, mapped if event else None)
        keep = self.outlined.rule("keep")
        for position in scope.select_positions(plan.metadata.keep.has)[:MAX_KEYS]:
            name = scope.message.names[position]
            text = scope.message.lines.text(position)
            place = names.segment(position)
            source = SourceTrace(
                "the whole segment",
                *(keep.file if keep else "", keep.line if keep else 0, Outcome.USED),
                *((place,), text, text),
                kind="segment",
            )
            known = mapped.get(name, "").split("\n")
            explained = event is None or text in known or _omitted(name, mapped)
            yield TargetTrace(
                f"meta:{name}", text, True, explained, source.file, source.line, (source,)
            )

    def blamed(
        self, refusal: RefusalTrace, mapping: InboundMapping, scopes: Sequence[MessageScope]
    ) -> RefusalTrace:
        """Return a refusal with the rule that causes it."""
        for scope in scopes:
            for target in self.targets:
                rule = _tag_rule(mapping, target.name)
                if rule is None:
                    continue
                try:
                    found = rule.refusal(scope)
                except RuleFailed:
                    continue
                if found is not None and found.place == refusal.place:
                    where = target.outlined
                    return replace(refusal, target=where.target, file=where.file, line=where.line)
        control = self.outlined.rule("order:control")
        if control is not None and refusal.place.endswith("ORC-1"):
            where = control
            return replace(refusal, target=where.target, file=where.file, line=where.line)
        return refusal


def _joined(targets: Sequence[TargetTrace]) -> list[TargetTrace]:
    """Join a key of Metadata whose rule has no value with the segment that makes the same key."""
    found: dict[str, TargetTrace] = {}
    for target in targets:
        before = found.get(target.target)
        found[target.target] = target if before is None else _added(before, target)
    return list(found.values())


def _added(before: TargetTrace, target: TargetTrace) -> TargetTrace:
    sources = (*before.sources, *target.sources)
    if not before.present:
        return replace(target, sources=sources)
    value = f"{before.value}\n{target.value}"  # the lines of several segments
    explained = before.explained and target.explained
    return replace(target, value=value, explained=explained, sources=sources)


def _text_of(rule: OutlineRule) -> str:
    return ", ".join(source.text for source in rule.sources)


def _tag_rule(mapping: InboundMapping, target: str) -> TagRule | None:
    kind, _, name = target.partition(":")
    return mapping.plan.tags.get(name) if kind == "tag" else None


def _looped(
    loop: _Loop,
    scope: MessageScope,
    names: PlaceNames,
    filled: set[str],
    mapped: Mapping[str, str] | None,
) -> Iterator[TargetTrace]:
    """Yield the keys of all segments of a name. Equal keys are numbered."""
    numbers: dict[str, int] = {}
    for position in scope.all_positions(loop.segment)[:MAX_KEYS]:
        one = scope.single(position)
        if loop.condition is not None and not loop.condition(one):
            continue
        key, value = loop.key.evaluate(one, names), loop.value.evaluate(one, names)
        if key.value in ("", NULL) or not value.value:
            continue
        name = key.value
        while name in filled:
            numbers[key.value] = numbers.get(key.value, 0) + 1
            name = f"{key.value} ({numbers[key.value] + 1})"
        filled.add(name)
        text = "" if value.value == NULL else value.value
        known = text if mapped is None else mapped.get(name)
        explained = known is not None and (known == text or known.startswith(f"{text}\n"))
        yield TargetTrace(
            f"meta:{name}",
            text,
            True,
            explained or _omitted(name, mapped or {}),
            loop.outlined.file,
            loop.outlined.line,
            (*value.sources, *(replace(source, kind="key") for source in key.sources)),
            value.steps,
        )


def _omitted(key: str, mapped: Mapping[str, str]) -> bool:
    """True if a key was left out because Metadata is too long."""
    return OMITTED in mapped and key not in mapped


def _as_filled(target: str, found: RuleTrace, scope: MessageScope, rule: OutlineRule) -> RuleTrace:
    """Apply what a mapping does with the value of a rule: nulls, lengths, capitals, the site."""
    kind, _, name = target.partition(":")
    value = found.value
    if kind in ("tag", "app"):
        if value == NULL and name in NEVER_DELETED:
            return replace(found, value="", steps=(*found.steps, TraceStep("never deleted", "")))
        if len(value) > MAX_VALUE_CHARACTERS and not found.ended:
            return _changed(found, "cut to the limit", shortened(name, value))
        if name == "SiteID" and not value and scope.defaults.site and not found.ended:
            site = scope.defaults.site
            source = SourceTrace(
                *("site of the listener", rule.file, rule.line, Outcome.LISTENER),
                value=site,
                kind="default",
            )
            return replace(found, value=site, sources=(*found.sources, source))
    elif kind in ("order", "prior_mrn", "prior_name", "visit", "visit-value", "link", "report"):
        value = "" if value == NULL else value
        if target == "order:control":
            value = value.upper()
        elif kind not in ("order", "link"):
            value = without_null(value)
        return replace(found, value=value)
    return found


def _changed(found: RuleTrace, name: str, value: str) -> RuleTrace:
    if value == found.value:
        return found
    return replace(found, value=value, steps=(*found.steps, TraceStep(name, value)))


def _expected(
    plan: OrderRules, scope: MessageScope, event: OrderEvent | None
) -> dict[str, str | None]:
    """Return the mapped values by target; without an event, those that can be read alone."""
    if event is None:
        return _expected_of_refused(plan.tags, scope)
    found: dict[str, str | None] = {}
    info = event.clinical_info
    for tag in plan.tags:
        found[f"tag:{tag}"] = info.get(tag)
    metadata: Mapping[str, str] = info.get("Metadata", {})
    kept = {scope.message.names[at] for at in scope.select_positions(plan.metadata.keep.has)}
    for key in plan.metadata.values:
        if not _omitted(key, metadata) and key not in kept:
            found[f"meta:{key}"] = metadata.get(key)
    for tag in plan.reporting_app:
        value: Any = event.reporting_app.get(tag)
        if not isinstance(value, bool):
            found[f"app:{tag}"] = value
    found["order:control"] = event.order_control or None
    found["order:status"] = event.order_status or None
    found["order:result_status"] = event.result_status or None
    found["order:placer"] = event.placer or None
    found["order:filler"] = event.filler or None
    for key in PARENTS:
        rule = plan.order.get(key)
        found[f"order:{key}"] = without_null(rule(scope)) or None if rule else None
    signals = {signal.kind: signal.value for signal in event.link_signals}
    for link in plan.links.valued:
        found[f"link:{link.kind}"] = signals.get(link.kind)
    return found


def _expected_of_refused(tags: Mapping[str, TagRule], scope: MessageScope) -> dict[str, str | None]:
    """Return the values of the tags that can be read although the message is refused."""
    found: dict[str, str | None] = {}
    for tag, rule in tags.items():
        try:
            value = rule.value(scope)
        except (MessageRefusal, RuleFailed):
            continue
        if len(value) <= MAX_VALUE_CHARACTERS and tag != "SiteID":
            found[f"tag:{tag}"] = None if not value else "" if value == NULL else value
    return found


def _expected_of_ignored(event: OrderEvent | None) -> dict[str, str | None]:
    if event is None:
        return {}
    mrn = None if not event.mrn else "" if event.mrn == NULL else event.mrn
    return {"tag:SiteID": event.site or None, "tag:PatientMRN": mrn}


def _expected_of_patient(
    plan: PatientRules, scope: MessageScope, event: OrderEvent | None
) -> dict[str, str | None]:
    if event is None or (event.action is OrderAction.IGNORE and not event.clinical_info):
        return _expected_of_refused(plan.tags, scope)
    found: dict[str, str | None] = {}
    for tag in plan.tags:
        found[f"tag:{tag}"] = event.clinical_info.get(tag)
    found["prior_mrn"] = without_null(plan.prior_mrn(scope)) or None
    if event.prior_name:
        found["prior_name"] = event.prior_name
    if event.visit is not None and plan.visit is not None:
        found["visit:number"] = event.visit.number or None
        found["visit:prior"] = event.visit.prior or None
        for key in plan.visit.values:
            found[f"visit-value:{key}"] = event.visit.values.get(key) or None
    return found


def _expected_of_outside(
    plan: OutsideRules, scope: MessageScope, event: OrderEvent | None
) -> dict[str, str | None]:
    """Return the mapped values of an outside report; its texts are not rules."""
    if event is None:
        return _expected_of_refused(plan.tags, scope)
    found: dict[str, str | None] = {f"tag:{tag}": event.clinical_info.get(tag) for tag in plan.tags}
    if event.outside is not None:
        found["report:number"] = event.outside.number
        found["report:parent"] = event.outside.parent or None
    return found
