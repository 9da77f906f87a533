"""
OutboundMapping: a compiled outbound definition, which renders one message for one release.

The definition lists segments in order, with loops over orders, lines of text and Metadata, and the
status codes of each event. The key `final after preliminary: {…}` applies if the receiver was last
sent a preliminary report. Wiring chooses the destinations, delivery sends.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mappings.language.diagnostics import Diagnostics, NotRenderable, YamlNode
from mappings.language.rules import CompilationContext
from mappings.outbound.echo import Echo
from mappings.outbound.encoding import message
from mappings.outbound.results import WITHDRAWALS, ResultContext, ResultEvent
from mappings.outbound.segments import Writer, compile_items
from mappings.outbound.style import STYLE_KEYS, OutputStyle, check_style_has_effect, compile_style
from mappings.outbound.variables import RenderState

CODES = ("result", "observation", "order", "message", "completion", "availability")
AFTER = " after "

StatusKey = tuple[ResultEvent, ResultEvent | None]


@dataclass(frozen=True, slots=True)
class StatusCodes:
    """The status codes of each event, by the event that was sent before."""

    table: Mapping[StatusKey, Mapping[str, str]] = field(repr=False)

    @property
    def events(self) -> frozenset[ResultEvent]:
        return frozenset(event for event, after in self.table if after is None)

    def codes(self, event: ResultEvent, earlier: Sequence[ResultEvent]) -> Mapping[str, str] | None:
        """Return the codes of an event, None if it is not listed."""
        known = [result_event for result_event in earlier if (event, result_event) in self.table]
        return self.table.get((event, known[-1] if known else None))

    def restricted_to(self, events: Collection[ResultEvent]) -> "StatusCodes":
        return StatusCodes({key: codes for key, codes in self.table.items() if key[0] in events})


def compile_statuses(node: YamlNode, diagnostics: Diagnostics) -> StatusCodes:
    """Read `statuses:`."""
    table: dict[StatusKey, Mapping[str, str]] = {}
    for key, below in diagnostics.read_mapping(node).items():
        name, after, before = key.partition(AFTER)
        event = _event(name, below, diagnostics)
        earlier = _event(before, below, diagnostics) if after else None
        codes = diagnostics.read_mapping(below, CODES)
        if event is not None and (earlier is not None or not after):
            table[event, earlier] = {
                code: diagnostics.read_text(value) for code, value in codes.items()
            }
    for event, earlier in table:
        if earlier is not None and (event, None) not in table:
            diagnostics.error(
                node, "statuses", f"{event} is missing beside `{event}{AFTER}{earlier}`"
            )
    return StatusCodes(table)


def _event(name: str, node: YamlNode, diagnostics: Diagnostics) -> ResultEvent | None:
    if name in tuple(ResultEvent):
        return ResultEvent(name)
    diagnostics.unknown(node.at_key(), "event", name, tuple(ResultEvent))
    return None


STATUS = "status"
KEYS = (*STYLE_KEYS, "statuses", "parts", "segments")


@dataclass(frozen=True, slots=True)
class OutboundMapping:
    """A compiled definition. Immutable; `version` is a hash of its files (16 hex digits)."""

    name: str
    version: str
    style: OutputStyle = field(repr=False)
    statuses: StatusCodes = field(repr=False)
    writers: tuple[Writer, ...] = field(repr=False)
    files: tuple[str, ...] = ()
    """The names of the files of which it was compiled."""
    base: tuple[str, str] | None = None
    """Name and version of the definition on which the settings of a destination are overlaid."""
    needs_thread: bool = False
    """Whether a rule is a hook or a complex pattern."""

    @property
    def identity(self) -> tuple[str, str]:
        """Name and version of the active definition."""
        return self.base or (self.name, self.version)

    @property
    def combined(self) -> bool:
        """
        Whether one message contains all linked orders.

        Otherwise the caller renders one for each order.
        """
        return self.style.orders != "separate"

    @property
    def events(self) -> frozenset[ResultEvent]:
        return self.statuses.events

    def restricted_to(self, events: Collection[ResultEvent]) -> "OutboundMapping":
        return replace(self, statuses=self.statuses.restricted_to(events))

    def render(self, result: ResultContext) -> bytes:
        """
        Render one message as UTF-8. Raises NotRenderable for an event without codes, and
        CodeRefused.
        """
        codes = self.statuses.codes(result.event, result.earlier)
        if codes is None or not result.orders:
            raise NotRenderable(self.name, result.event)
        if self.style.layout.is_alone(result) and result.event not in WITHDRAWALS:
            codes = {**codes, **self._addendum_codes(result)}
        order = result.orders[0]
        echo = Echo(order.echo, zoned=self.style.zoned)
        state = RenderState(result, order, echo, 1, codes, self.style)
        written = [one for writer in self.writers for one in writer(state)]
        return message(written).encode()

    def _addendum_codes(self, result: ResultContext) -> dict[str, str]:
        """Return the codes of an addendum that is sent alone: it is new, and corrects nothing."""
        final = self.statuses.codes(ResultEvent.FINAL, ()) or {}
        new = ("result", "observation") if self.style.layout.in_child(result) else ("observation",)
        return {code: final[code] for code in new if code in final}


def compile_outbound(
    name: str, root: YamlNode, entries: dict[str, YamlNode], context: CompilationContext
) -> OutboundMapping:
    """Compile a definition of kind `results` or `status`."""
    style = compile_style(entries, context)
    for key in ("statuses", "segments"):
        if key not in entries:
            context.diagnostics.error(root, key, f"{key} is missing")
    statuses = StatusCodes({})
    if "statuses" in entries:
        statuses = compile_statuses(entries["statuses"], context.diagnostics)
    writers = compile_items(entries.get("segments"), entries.get("parts"), style, context)
    if "parts" in entries:
        _check_parts(root, entries["parts"], context)
    if entries["kind"].value != STATUS:  # status messages contain no text
        check_style_has_effect(root, entries, context)
    long = context.diagnostics.needs_thread
    return OutboundMapping(name, "", style, statuses, writers, needs_thread=long)


def _check_parts(root: YamlNode, parts: YamlNode, context: CompilationContext) -> None:
    """Warn about parts of the outermost file that are not used."""
    for name, below in context.diagnostics.read_mapping(parts).items():
        if below.file == root.file and f"use: {name}" not in context.used:
            context.diagnostics.warn(below.at_key(), "dead", f"no segment uses {name}")
