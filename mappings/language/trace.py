"""
Trace of a rule: where in a message its value comes from, and why other sources were not used.

A rule is evaluated a second time, source by source, by the functions with which the compiler makes
the rules of a mapping. The rules of a mapping themselves are not changed and not slowed down. The
caller compares the value with the one that was mapped; if they differ, the trace does not explain
it.

A trace contains patient data and must not be logged.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from mappings.hl7.message import NULL, without_null
from mappings.hl7.path import InvalidPath, Path
from mappings.hl7.refusals import MessageRefusal
from mappings.language import transforms
from mappings.language.conditions import Condition, compile_condition, compile_pattern
from mappings.language.diagnostics import RuleFailed, YamlNode
from mappings.language.outline import condition_words, read_source
from mappings.language.places import MessagePlace, Piece, PlaceNames, locate, locate_all
from mappings.language.rules import (
    EVERY_VALUE,
    LISTENER,
    SOURCES,
    Change,
    CompilationContext,
    Rule,
    compile_codes,
    compile_rule,
    compile_where,
    extraction,
    filter_segment,
    join_rules,
    read_paths,
    separator_of,
)
from mappings.language.scope import MessageScope

MAX_PLACES = 200
"""Places of one source that are returned. A field may have thousands of repetitions."""


class Outcome(StrEnum):
    """What became of a source."""

    USED = "used"
    EMPTY = "empty"
    NO_SEGMENT = "no segment"
    NULL = "null"
    CONDITION = "condition not met"
    PATTERN = "pattern does not match"
    CODES = "not in code table"
    TRANSFORM = "transform gives nothing"
    EARLIER = "an earlier source has a value"
    LISTENER = "listener default"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TraceStep:
    """A change of a value, such as `as person-name`, and the value after it."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class SourceTrace:
    """
    A source of a rule in one message scope.

    `raw` is the text as sent, with escapes and separators; several values are joined. `value` is
    the value after all `steps`.
    """

    text: str
    file: str
    line: int
    outcome: Outcome
    places: tuple[MessagePlace, ...] = ()
    raw: str = ""
    value: str = ""
    note: str = ""
    steps: tuple[TraceStep, ...] = ()
    kind: str = ""


@dataclass(frozen=True, slots=True)
class RuleTrace:
    """
    The value of a rule (`""`, or the HL7 null), its sources, and the changes of a joined value.

    `ended`: a source refuses the message or failed, so that no later one is tried.
    """

    value: str
    sources: tuple[SourceTrace, ...]
    steps: tuple[TraceStep, ...] = ()
    ended: bool = False


class TracedRule(Protocol):
    """A part of a rule. Evaluates itself, or explains why it is not evaluated."""

    def evaluate(self, scope: MessageScope, names: PlaceNames) -> RuleTrace: ...

    def unused(
        self, scope: MessageScope, names: PlaceNames, outcome: Outcome, note: str = ""
    ) -> Iterator[SourceTrace]:
        """Yield the sources with their places, without evaluating them."""


def compile_trace(node: YamlNode, context: CompilationContext, *, raw: bool = False) -> TracedRule:
    """Compile a rule without errors. The structure is that of `compile_rule`."""
    if isinstance(node.value, str):
        return _path(node, context, raw=raw)
    if isinstance(node.value, list):
        return _FirstOf([compile_trace(item, context, raw=raw) for item in node.value])
    if isinstance(node.value, dict):
        return _mapping(node, node.value, context, raw=raw)
    return _FirstOf([])


def _mapping(
    node: YamlNode, entries: dict[str, YamlNode], context: CompilationContext, *, raw: bool
) -> TracedRule:
    source = next((key for key in SOURCES if key in entries), "")
    chosen = transforms.compile_transforms(entries.get("as"), context.diagnostics)
    keep = raw or any(transform.raw for transform in chosen)
    changes: list[_NamedChange] = []
    if "extract" in entries:
        search = compile_pattern(entries["extract"], context.diagnostics)
        changes.append(_NamedChange("extract", Outcome.PATTERN, extraction(search)))
    items = context.diagnostics.read_items(entries["as"]) if chosen else []
    for item, transform in zip(items, chosen, strict=True):
        changes.append(_NamedChange(f"as {item.value}", Outcome.TRANSFORM, transform.apply))
    inner: TracedRule
    if source in EVERY_VALUE:
        inner, changes = _every(node, source, entries, changes, context, raw=keep)
    else:
        inner = _source(node, source, entries, context, raw=keep)
        changes += _codes(entries, context)
    when, default = entries.get("when"), entries.get("default")
    return _Finished(
        inner,
        changes,
        None if when is None else compile_condition(when, context.diagnostics),
        "" if when is None else condition_words(when),
        None if default is None else _default(default, context.diagnostics.read_text(default)),
    )


def _default(node: YamlNode, text: str) -> SourceTrace:
    of_listener = text == LISTENER
    return SourceTrace(
        "site of the listener" if of_listener else f"default {text}",
        *(node.file, node.line, Outcome.LISTENER if of_listener else Outcome.USED),
        value="" if of_listener else text,
        kind="default",
    )


def _source(
    node: YamlNode,
    name: str,
    entries: dict[str, YamlNode],
    context: CompilationContext,
    *,
    raw: bool,
) -> TracedRule:
    if not name:
        return _FirstOf([])
    below = entries[name]
    if name == "join":
        items = context.diagnostics.read_items(below)
        parts = [compile_trace(item, context, raw=raw) for item in items]
        return _Joined(parts, separator_of(entries, context))
    if name == "age":
        days = [below[key] for key in ("of", "on") if below.get(key) is not None]
        return _Age([compile_trace(day, context) for day in days])
    if name == "from":
        return compile_trace(below, context, raw=raw)
    alone = replace(node, value={name: below})
    return _Leaf(_described(node), compile_rule(alone, context), name)


def _described(node: YamlNode) -> SourceTrace:
    source = read_source(node)
    return SourceTrace(source.text, node.file, node.line, Outcome.USED, kind=source.kind)


def _path(node: YamlNode, context: CompilationContext, *, raw: bool) -> TracedRule:
    rule = compile_rule(node, context, raw=raw)
    try:
        path = Path.parse(str(node.value))
    except InvalidPath:
        return _FirstOf([])
    return _PathRule(_described(node), path, rule, raw)


def _codes(entries: dict[str, YamlNode], context: CompilationContext) -> list["_NamedChange"]:
    name = next((key for key in ("codes", "codes_back") if key in entries), "")
    table = context.diagnostics.read_text(entries[name]) if name else ""
    return [
        _NamedChange(f"{name} {table}", Outcome.CODES, change)
        for change in compile_codes(entries, context)
    ]


def _every(
    node: YamlNode,
    kind: str,
    entries: dict[str, YamlNode],
    changes: list["_NamedChange"],
    context: CompilationContext,
    *,
    raw: bool,
) -> tuple[TracedRule, list["_NamedChange"]]:
    """Compile `all` and `first`. With a code table each value is changed, else the joined one."""
    paths = read_paths(entries[kind], context)
    if not paths:
        return _FirstOf([]), changes
    codes = _codes(entries, context)
    after = context.diagnostics.read_texts(entries["after"]) if "after" in entries else [""]
    rule = _Every(
        _described(node),
        paths,
        after,
        compile_where(entries, paths[0].segment, context),
        condition_words(entries["where"]) if "where" in entries else "",
        changes + codes if codes else [],
        raw,
        kind == "first",
        context.diagnostics.read_flag(entries.get("distinct"), default=False),
        separator_of(entries, context),
    )
    return rule, [] if codes else changes


@dataclass(frozen=True, slots=True)
class _NamedChange:
    name: str
    outcome: Outcome
    """The outcome of a source for which the change has no value."""
    change: Change


@dataclass(frozen=True, slots=True)
class _FirstOf:
    parts: Sequence[TracedRule]

    def evaluate(self, scope: MessageScope, names: PlaceNames) -> RuleTrace:
        value, sources, steps = "", list[SourceTrace](), tuple[TraceStep, ...]()
        ended = False
        for part in self.parts:
            if ended or value not in ("", NULL):
                note = "the message is refused" if ended else ""
                sources += part.unused(scope, names, Outcome.EARLIER, note)
                continue
            found = part.evaluate(scope, names)
            sources += found.sources
            ended = found.ended
            if found.value:
                value, steps = found.value, found.steps
        return RuleTrace("" if ended else value, tuple(sources), steps, ended)

    def unused(
        self, scope: MessageScope, names: PlaceNames, outcome: Outcome, note: str = ""
    ) -> Iterator[SourceTrace]:
        for part in self.parts:
            yield from part.unused(scope, names, outcome, note)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A constant or a hook."""

    described: SourceTrace
    rule: Rule
    kind: str

    def evaluate(self, scope: MessageScope, names: PlaceNames) -> RuleTrace:
        try:
            value = self.rule(scope)
        except RuleFailed as failure:
            failed = replace(self.described, outcome=Outcome.FAILED, note=str(failure))
            return RuleTrace("", (failed,), ended=True)
        outcome = Outcome.NULL if value == NULL else Outcome.USED if value else Outcome.EMPTY
        note = "called once more for this trace" if self.kind == "hook" else ""
        return RuleTrace(value, (replace(self.described, outcome=outcome, value=value, note=note),))

    def unused(
        self, scope: MessageScope, names: PlaceNames, outcome: Outcome, note: str = ""
    ) -> Iterator[SourceTrace]:
        yield replace(self.described, outcome=outcome, note=note)


@dataclass(frozen=True, slots=True)
class _PathRule:
    described: SourceTrace
    path: Path
    rule: Rule
    raw: bool

    def evaluate(self, scope: MessageScope, names: PlaceNames) -> RuleTrace:
        value = self.rule(scope)
        outcome, note = Outcome.USED, ""
        if value == NULL:
            outcome = Outcome.NULL
        elif not value:
            outcome, note = self._why_empty(scope)
        return RuleTrace(value, (self._trace(scope, names, outcome, value, note),))

    def unused(
        self, scope: MessageScope, names: PlaceNames, outcome: Outcome, note: str = ""
    ) -> Iterator[SourceTrace]:
        yield self._trace(scope, names, outcome, "", note)

    def _why_empty(self, scope: MessageScope) -> tuple[Outcome, str]:
        count = len(scope.visible_positions(self.path.segment))
        if not count:
            return Outcome.NO_SEGMENT, f"there is no {self.path.segment}"
        if count < self.path.occurrence:
            return Outcome.NO_SEGMENT, f"there is no {self.path.segment}[{self.path.occurrence}]"
        piece = locate(self.path, scope, raw=self.raw)
        if self.path.filters and piece is not None and piece.text(scope):
            wanted = "".join(map(str, self.path.filters))
            return Outcome.EMPTY, f"no repetition with {wanted} has a value"
        return Outcome.EMPTY, ""

    def _trace(
        self, scope: MessageScope, names: PlaceNames, outcome: Outcome, value: str, note: str
    ) -> SourceTrace:
        piece = locate(self.path, scope, raw=self.raw)
        if piece is None:
            return replace(self.described, outcome=outcome, note=note)
        return replace(
            self.described,
            outcome=outcome,
            places=(names.place(piece),),
            raw=piece.text(scope),
            value=value,
            note=note,
        )


@dataclass(frozen=True, slots=True)
class _Every:
    """All values of a field, joined, or the first one."""

    described: SourceTrace
    paths: Sequence[Path]
    after: Sequence[str]
    where: Condition | None
    where_words: str
    changes: Sequence[_NamedChange]
    raw: bool
    only_first: bool
    distinct: bool
    separator: str

    def evaluate(self, scope: MessageScope, names: PlaceNames) -> RuleTrace:
        found = [(piece.value(scope, raw=self.raw), piece) for piece in self._pieces(scope)]
        if not found:
            outcome, note = self._why_empty(scope)
            return RuleTrace("", (replace(self.described, outcome=outcome, note=note),))
        if any(value == NULL for value, _ in found):
            found = [pair for pair in found if pair[0] != NULL] or found[:1]
        every = found
        steps: list[TraceStep] = []
        for one in self.changes:
            try:
                found = [
                    (one.change(value, scope) if value != NULL else value, piece)
                    for value, piece in found
                ]
            except MessageRefusal:
                refused = self._trace(scope, names, one.outcome, every, "the message is refused")
                return RuleTrace("", (refused,), ended=True)
            found = [pair for pair in found if pair[0]]
            steps.append(TraceStep(one.name, self._joined(found)))
            if not found:
                source = self._trace(scope, names, one.outcome, every, "")
                return RuleTrace("", (replace(source, steps=tuple(steps)),))
        value = self._joined(found)
        outcome = Outcome.NULL if value == NULL else Outcome.USED
        used = found[:1] if self.only_first else found
        source = self._trace(scope, names, outcome, used, "")
        return RuleTrace(value, (replace(source, value=value, steps=tuple(steps)),))

    def unused(
        self, scope: MessageScope, names: PlaceNames, outcome: Outcome, note: str = ""
    ) -> Iterator[SourceTrace]:
        pieces = self._pieces(scope)
        yield self._trace(scope, names, outcome, [("", piece) for piece in pieces], note)

    def _pieces(self, scope: MessageScope) -> list[Piece]:
        segment = self.paths[0].segment
        if not scope.all_positions(segment):
            return []
        visible = scope if self.where is None else filter_segment(scope, segment, self.where)
        return [
            piece
            for predecessor in self.after
            for piece in locate_all(self.paths, visible, after=predecessor, raw=self.raw)
        ]

    def _why_empty(self, scope: MessageScope) -> tuple[Outcome, str]:
        segment = self.paths[0].segment
        if not scope.all_positions(segment):
            return Outcome.NO_SEGMENT, f"there is no {segment}"
        if self.where is not None and not filter_segment(scope, segment, self.where).own.order:
            return Outcome.CONDITION, f"no {segment} where {self.where_words}"
        if any(self.after) and not any(
            scope.all_positions(f"{name}>{segment}") for name in self.after
        ):
            return Outcome.CONDITION, f"no {segment} after {' or '.join(self.after)}"
        return Outcome.EMPTY, ""

    def _joined(self, found: Sequence[tuple[str, Piece]]) -> str:
        values = [value for value, _ in found]
        if self.only_first or len(values) <= 1:
            return values[0] if values else ""
        return self.separator.join(dict.fromkeys(values) if self.distinct else values)

    def _trace(
        self,
        scope: MessageScope,
        names: PlaceNames,
        outcome: Outcome,
        found: Sequence[tuple[str, Piece]],
        note: str,
    ) -> SourceTrace:
        shown = [piece for _, piece in found[:MAX_PLACES]]
        if len(found) > MAX_PLACES:
            note = f"{note}; {len(found)} places".removeprefix("; ")
        return replace(
            self.described,
            outcome=outcome,
            places=tuple(map(names.place, shown)),
            raw=self.separator.join(piece.text(scope) for piece in shown),
            note=note,
        )


@dataclass(frozen=True, slots=True)
class _Joined:
    parts: Sequence[TracedRule]
    separator: str

    def evaluate(self, scope: MessageScope, names: PlaceNames) -> RuleTrace:
        found = [part.evaluate(scope, names) for part in self.parts]
        values = [_constant(trace.value) for trace in found]
        ended = any(trace.ended for trace in found)
        return RuleTrace(
            "" if ended else join_rules(values, self.separator)(scope),
            tuple(source for trace in found for source in trace.sources),
            tuple(step for trace in found for step in trace.steps),
            ended,
        )

    def unused(
        self, scope: MessageScope, names: PlaceNames, outcome: Outcome, note: str = ""
    ) -> Iterator[SourceTrace]:
        for part in self.parts:
            yield from part.unused(scope, names, outcome, note)


def _constant(value: str) -> Rule:
    return lambda scope: value


@dataclass(frozen=True, slots=True)
class _Age:
    """An age: of the first value, on the day of the second one, or today."""

    parts: Sequence[TracedRule]

    def evaluate(self, scope: MessageScope, names: PlaceNames) -> RuleTrace:
        found = [part.evaluate(scope, names) for part in self.parts]
        birth, day = ([trace.value for trace in found] + ["", ""])[:2]
        ended = any(trace.ended for trace in found)
        value = "" if ended else transforms.age(birth, day, scope)
        sources = tuple(source for trace in found for source in trace.sources)
        if not value:
            sources = _without_value(sources, Outcome.TRANSFORM)
        return RuleTrace(value, sources, (TraceStep("age", value),), ended)

    def unused(
        self, scope: MessageScope, names: PlaceNames, outcome: Outcome, note: str = ""
    ) -> Iterator[SourceTrace]:
        for part in self.parts:
            yield from part.unused(scope, names, outcome, note)


def _without_value(
    sources: Sequence[SourceTrace], outcome: Outcome, note: str = ""
) -> tuple[SourceTrace, ...]:
    """Mark sources whose value a later change does not keep."""
    return tuple(
        replace(source, outcome=outcome, note=note or source.note)
        if source.outcome in (Outcome.USED, Outcome.LISTENER)
        else source
        for source in sources
    )


@dataclass(frozen=True, slots=True)
class _Finished:
    """A rule with the changes of its value, its condition and its default."""

    inner: TracedRule
    changes: Sequence[_NamedChange]
    condition: Condition | None
    words: str
    default: SourceTrace | None

    def evaluate(self, scope: MessageScope, names: PlaceNames) -> RuleTrace:
        if self.condition is not None and not self.condition(scope):
            skipped = self.inner.unused(scope, names, Outcome.CONDITION, self.words)
            found = RuleTrace("", tuple(skipped))
        else:
            found = self.inner.evaluate(scope, names)
            for one in self.changes:
                found = _changed(found, one, scope)
        if self.default is None or found.ended:
            return found
        value = without_null(found.value)
        if value:
            unused = replace(self.default, outcome=Outcome.EARLIER, value="")
            return replace(found, value=value, sources=(*found.sources, unused))
        value = self.default.value
        source = self.default
        if source.outcome is Outcome.LISTENER:
            value = scope.defaults.site
            source = replace(source, value=value)
        if not value:
            source = replace(source, outcome=Outcome.EMPTY)
        return replace(found, value=value, sources=(*found.sources, source))

    def unused(
        self, scope: MessageScope, names: PlaceNames, outcome: Outcome, note: str = ""
    ) -> Iterator[SourceTrace]:
        yield from self.inner.unused(scope, names, outcome, note)
        if self.default is not None:
            yield replace(self.default, outcome=outcome, value="", note=note)


def _changed(found: RuleTrace, one: _NamedChange, scope: MessageScope) -> RuleTrace:
    """Apply a change to the value of a rule, and add the step to the source of the value."""
    if found.value in ("", NULL) or found.ended:
        return found
    try:
        value = one.change(found.value, scope)
    except MessageRefusal:
        sources = _without_value(found.sources, one.outcome, "the message is refused")
        return RuleTrace("", sources, found.steps, ended=True)
    step = TraceStep(one.name, value)
    used = [source for source in found.sources if source.outcome is Outcome.USED]
    if len(used) != 1:
        sources = found.sources if value else _without_value(found.sources, one.outcome)
        return RuleTrace(value, sources, (*found.steps, step))
    steps = (*used[0].steps, step)
    changed = replace(
        used[0], value=value, steps=steps, outcome=used[0].outcome if value else one.outcome
    )
    sources = tuple(changed if source is used[0] else source for source in found.sources)
    return RuleTrace(value, sources, found.steps)
