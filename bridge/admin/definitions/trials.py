"""
Trials, comparisons and inference of definitions, for the console and `bridge mapping`.

Without the permission to read bodies, a comparison returns field names and counts only. Each
request of the console is limited in time. `left` in the result counts the messages that it did not
reach.

The results that an outbound definition writes depend on the orders of a message. The version with
which a stored message was stored reads its orders. The orders of another message are read by the
first definition of its listener that accepts it.

Results contain patient data and are never logged.
"""

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from bridge import active_settings
from bridge.active_settings import (
    SourceFinder,
    active_sources,
    all_sources,
    file_sources,
    version_finder,
)
from bridge.admin.definitions.drafts import (
    DRAFT,
    NoDraft,
    as_operator_errors,
    check_cached,
    issue_json,
    require_code_permission,
    sources_of,
)
from bridge.admin.definitions.result_previews import ResultPreviews
from bridge.admin.definitions.trace_json import trace_payload
from bridge.admin.errors import InvalidContent
from bridge.admin.lists.definitions import MESSAGES
from bridge.admin.lists.listing import MAX_VALUES, iterate
from bridge.admin.messages.message_index import NumberKind
from bridge.admin.messages.message_tree import content_of
from bridge.engine_client.client import EngineClient
from bridge.errors import BridgeError
from bridge.executors import CONSOLE_THREADS
from bridge.intake.receive.listener_policy import VersionFinder
from bridge.queue import queries
from bridge.queue.listing_rows import MessageRow
from bridge.queue.log_tables import pull_new
from bridge.store.database import Database
from config import Settings
from config import load as load_settings
from config.listeners import ListenerSettings
from config.settings import FILE_NAME
from mappings.authoring.inference import infer_definition
from mappings.authoring.trial import (
    FieldDifference,
    Trial,
    compare,
    compare_items,
    compare_results,
    deadline,
    item_text,
    render_samples,
    sample_contexts,
    try_message,
    value_uses,
)
from mappings.compiler import Compiled, load
from mappings.hl7.batch import messages_in
from mappings.hl7.header import peek
from mappings.hl7.message import Message
from mappings.hl7.refusals import MalformedMessage, MessageRefusal
from mappings.hl7.tree import first_segments
from mappings.inbound.definition import InboundMapping
from mappings.language.diagnostics import MappingError, MappingErrors, Sources
from mappings.language.scope import ListenerDefaults
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import ResultContext
from mappings.outbound.worklist_item import WorklistItem, WorklistMapping

_PAGE = 50
MAX_SAMPLE_BYTES = 32 * 2**20
"""Bytes of stored messages that are read for a comparison. A message may have 16 MiB."""
_CHARSET = "utf-8"
_MESSAGE_STARTS = (b"MSH", b"FHS", b"BHS")


@dataclass(frozen=True, slots=True)
class MessageSample:
    """A message with a label, and the defaults of its listener."""

    label: str
    payload: bytes
    defaults: ListenerDefaults
    charset: str = _CHARSET
    listener: str = ""
    mapping: str = ""
    """The definition that read a stored message; `version` is its version."""
    version: str = ""


def file_samples(
    paths: Sequence[Path], site: str, listener: ListenerSettings | None = None
) -> list[MessageSample]:
    """
    Read the messages of files and folders; a file may contain several messages.

    The defaults are those of `listener`; without a listener they are `site`, UTC and UTF-8.
    """
    defaults, charset, name = ListenerDefaults(site, "UTC", datetime.now(UTC)), _CHARSET, ""
    if listener is not None:
        defaults = ListenerDefaults(listener.site, listener.time_zone, datetime.now(UTC))
        charset, name = listener.charset, listener.name
    found = []
    for file, is_named in _files(paths):
        messages = messages_in(file.read_bytes())
        if not is_named:
            messages = [message for message in messages if message.startswith(_MESSAGE_STARTS)]
        for number, message in enumerate(messages, start=1):
            label = str(file) if len(messages) == 1 else f"{file}#{number}"
            found.append(MessageSample(label, message, defaults, charset, name))
    return found


def _files(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield each file, and whether it was named; a folder may contain other files too."""
    for path in paths:
        if not path.is_dir():
            yield path, True
            continue
        for file in sorted(path.rglob("*")):
            if file.is_file():
                yield file, False


def stored_samples(
    settings: Settings, database: Database, name: str, limit: int
) -> list[MessageSample]:
    """
    Return the latest messages of the listeners that use a definition, newest first.

    If no listener uses it, messages of all listeners. Fewer are returned if they are large.
    """
    settings = active_settings.current(settings, database)
    users = [
        listener for listener in settings.listener if name in listener.mappings
    ] or settings.listener
    listeners = {user.name: user for user in users}
    pull_new(database)
    names = sorted(listeners)[:MAX_VALUES]
    newest = iterate(database, MESSAGES, {"channel": names}, page_size=_PAGE) if names else iter(())
    return samples_of(database, listeners, islice(newest, limit))


def samples_of(
    database: Database, listeners: Mapping[str, ListenerSettings], rows: Iterable[MessageRow]
) -> list[MessageSample]:
    """Return stored messages with the defaults of their listeners, until `MAX_SAMPLE_BYTES`."""
    found: list[MessageSample] = []
    size = 0
    for row in rows:
        payload = queries.message(database, row.id).payload
        found.append(stored_sample(listeners[row.listener], row, payload))
        size += len(found[-1].payload)
        if size >= MAX_SAMPLE_BYTES:
            break
    return found


def stored_sample(listener: ListenerSettings, row: MessageRow, payload: bytes) -> MessageSample:
    received = datetime.fromtimestamp(row.received_at / 1000, UTC)
    defaults = ListenerDefaults(listener.site, listener.time_zone, received)
    return MessageSample(
        f"message {row.id}",
        payload,
        defaults,
        listener.charset,
        listener.name,
        row.mapping,
        row.mapping_version,
    )


OrderReader = Callable[[MessageSample], InboundMapping | None]
"""Returns the definition that reads the orders of a message, or None."""

_DEFAULT_ORDERS = "orders"


class NotAnOrderReader(BridgeError):
    def __init__(self, name: str) -> None:
        super().__init__(f"{name} does not read messages: --orders names a definition that does")


class OrderReaders:
    """Finds the definition that reads a message. Raises MappingErrors if it has mistakes."""

    def __init__(self, settings: Settings, find: SourceFinder, find_version: VersionFinder) -> None:
        """`find` returns sources, `find_version` versions; `settings` are the active settings."""
        self._settings = settings
        self._find = find
        self._find_version = find_version

    def __call__(self, sample: MessageSample) -> InboundMapping | None:
        if sample.mapping:
            kept = self._find_version(sample.mapping, sample.version)
            return kept or self._compiled(sample.mapping)
        try:
            header = peek(sample.payload)
        except MalformedMessage:
            return None
        compiled = (self._compiled(name) for name in self._names(sample.listener))
        charset = sample.charset
        return next(
            (mapping for mapping in compiled if mapping and mapping.accepts(header, charset)), None
        )

    def _names(self, listener: str) -> Sequence[str]:
        known = self._settings.listener
        chosen = [entry for entry in known if entry.name == listener] or known
        return list(dict.fromkeys(name for entry in chosen for name in entry.mappings))

    def _compiled(self, name: str) -> InboundMapping | None:
        found = check_cached(self._find(name), name)
        if found.compiled is None:
            raise MappingErrors(found.issues)
        return found.compiled if isinstance(found.compiled, InboundMapping) else None


def order_reader(
    settings: Settings, database: Database, samples: Sequence[MessageSample], orders: str = ""
) -> OrderReader:
    """Return a reader for these messages, or the definition `orders` of the files."""
    if orders:
        return _reader_of_file(settings.home, orders)
    # The reader is used after the database is closed, so the versions are loaded now.
    find_version = version_finder(database)
    stored_with = {(sample.mapping, sample.version) for sample in samples if sample.mapping}
    kept = {key: find_version(*key) for key in stored_with}
    current, find = active_settings.current(settings, database), active_sources(settings, database)
    return OrderReaders(current, find, lambda name, version: kept.get((name, version)))


def file_order_reader(home: Path, orders: str = "") -> OrderReader:
    """Return a reader among the files of a data directory, or the definition `orders`."""
    if orders or not (home / FILE_NAME).exists():
        return _reader_of_file(home, orders or _DEFAULT_ORDERS)
    settings = load_settings(home)
    return OrderReaders(settings, file_sources(settings), lambda name, version: None)


def _reader_of_file(home: Path, name: str) -> OrderReader:
    compiled = load(home / "mappings", name)
    if not isinstance(compiled, InboundMapping):
        raise NotAnOrderReader(name)
    return lambda sample: compiled


SampleComparison = Callable[[MessageSample], Sequence[FieldDifference]]


class NotComparable(BridgeError):
    """The versions are definitions of different kinds."""


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """
    The number of compared messages, and those that the versions map differently.

    `left` messages were not compared, because the time was over.
    """

    count: int
    differing: tuple[tuple[MessageSample, Sequence[FieldDifference]], ...]
    left: int = 0


def make_comparison(before: Compiled, after: Compiled, reader: OrderReader) -> SampleComparison:
    """
    Return a function that compares the events that two versions read, or what they write: messages
    or worklist items.

    `reader` returns the definition that reads the orders of a message. Raises NotComparable.
    """
    if isinstance(before, InboundMapping) and isinstance(after, InboundMapping):
        return lambda sample: compare(
            before, after, sample.payload, sample.defaults, sample.charset
        )
    if isinstance(before, WorklistMapping) and isinstance(after, WorklistMapping):
        return lambda sample: compare_items(
            worklist_items(before, reader, sample), worklist_items(after, reader, sample)
        )
    if not (isinstance(before, OutboundMapping) and isinstance(after, OutboundMapping)):
        raise NotComparable("the versions are definitions of different kinds")

    def compare_written(sample: MessageSample) -> list[FieldDifference]:
        orders = reader(sample)
        if orders is None:
            return []
        return compare_results(_render(before, orders, sample), _render(after, orders, sample))

    return compare_written


def _render(mapping: OutboundMapping, reader: InboundMapping, sample: MessageSample) -> list[bytes]:
    try:
        return render_samples(mapping, reader, sample.payload, sample.defaults, sample.charset)
    except MappingError:
        return []


def worklist_items(
    mapping: WorklistMapping, find_reader: OrderReader, sample: MessageSample
) -> list[WorklistItem]:
    """Return the worklist items of the orders of a message; none if it cannot be read."""
    try:
        reader = find_reader(sample)
        if reader is None:
            return []
        source = (sample.payload, sample.defaults, sample.charset)
        contexts = sample_contexts(mapping, reader, *source)
        return [item for context in contexts for item in mapping.items(context)]
    except MappingError:
        return []


def compare_samples(
    samples: Iterable[MessageSample],
    compare: SampleComparison,
    expired: Callable[[], bool] = lambda: False,
) -> ComparisonResult:
    """Compare each message until `expired` returns True."""
    all_samples = list(samples)
    differing: list[tuple[MessageSample, Sequence[FieldDifference]]] = []
    for count, sample in enumerate(all_samples):
        if expired():
            return ComparisonResult(count, tuple(differing), len(all_samples) - count)
        if found := compare(sample):
            differing.append((sample, found))
    return ComparisonResult(len(all_samples), tuple(differing))


def sample_json(sample: MessageSample) -> Mapping[str, Any]:
    """Return the JSON form of a stored message, with its bytes in base64."""
    return {
        "label": sample.label,
        "listener": sample.listener,
        "mapping": sample.mapping,
        "version": sample.version,
        "payload": base64.b64encode(sample.payload).decode(),
    }


def run_trial(mapping: Compiled, sample: MessageSample, reader: OrderReader) -> Mapping[str, Any]:
    """Try a definition on a message. Errors of the message become issues of the result."""
    shown = {"segments": _segments(sample)}
    if not isinstance(mapping, InboundMapping):
        return {**shown, **_outbound_result(mapping, sample, reader)}
    result = try_message(mapping, sample.payload, sample.defaults, sample.charset)
    return {
        **shown,
        **_mapped(result),
        "issues": [issue_json(issue) for issue in result.issues],
        "lanes": list(result.lanes),
        "facts": [],
        "hl7": [],
    }


def _outbound_result(
    mapping: OutboundMapping | WorklistMapping, sample: MessageSample, find_reader: OrderReader
) -> Mapping[str, Any]:
    facts: dict[str, Any] = {key: [] for key in ("lanes", "events", "facts")}
    written: list[str] = []
    issues: list[dict[str, Any]] = []
    try:
        reader = find_reader(sample)
        if reader is not None:
            source = (sample.payload, sample.defaults, sample.charset)
            contexts = sample_contexts(mapping, reader, *source)
            written = [text for context in contexts for text in _written_texts(mapping, context)]
            unmapped = [code for context in contexts for code in context.unmapped_codes or ()]
            issues += [issue_json(code.issue) for code in dict.fromkeys(unmapped)]
            facts["facts"] = [asdict(use) for use in value_uses(mapping, contexts)]
    except MappingError as error:
        text = {"message": str(error), "path": "", "severity": "error", "code": "rule"}
        issues.append({**text, "file": "", "line": 0, "column": 0})
    return {**facts, "accepted": bool(written), "issues": issues, "hl7": written}


def _written_texts(mapping: OutboundMapping | WorklistMapping, context: ResultContext) -> list[str]:
    if isinstance(mapping, WorklistMapping):
        return [item_text(item) for item in mapping.items(context)]
    return [mapping.render(context).decode().replace("\r", "\n")]


def _segments(sample: MessageSample) -> list[dict[str, Any]]:
    """
    Return the segments with all fields, with delimiters and escapes as they were sent.

    Segments of a message with very many fields are left out.
    """
    try:
        message = Message.parse(sample.payload, fallback=sample.charset)
    except MessageRefusal:
        return []
    segments = []
    for segment, number in first_segments(message):
        place = segment.id if number == 1 else f"{segment.id}[{number}]"
        fields = [segment.field_text(index) for index in range(1, len(segment) + 1)]
        segments.append({"name": segment.id, "place": place, "fields": fields})
    return segments


def _mapped(trial: Trial) -> dict[str, Any]:
    return {
        "accepted": trial.accepted,
        "events": list(trial.events),
    }


_MAX_SHOWN = 50


def comparison_json(found: ComparisonResult, after: str, *, values: bool) -> Mapping[str, Any]:
    """Return the JSON form of a comparison, with the fields of at most `_MAX_SHOWN` messages."""
    fields = Counter(item.field for _, differences in found.differing for item in differences)
    shown = found.differing[:_MAX_SHOWN]
    return {
        "after": after,
        "compared": found.count,
        "left": found.left,
        "differing": len(found.differing),
        "fields": [{"field": field, "count": count} for field, count in fields.most_common()],
        "messages": [
            {
                "label": sample.label,
                "differences": [_difference_json(difference, values) for difference in differences],
            }
            for sample, differences in shown
        ],
    }


def _difference_json(found: FieldDifference, values: bool) -> dict[str, str]:
    if values:
        return {"field": found.field, "before": found.before, "after": found.after}
    return {"field": found.field}


def comparison_with_active(
    settings: Settings, database: Database, after: Compiled
) -> SampleComparison:
    """
    Return a comparison of `after` with the active definition that reads each message now.

    Messages that `after` does not accept have no differences. Raises NotComparable for an outbound
    definition.
    """
    if not isinstance(after, InboundMapping):
        raise NotComparable(
            "only an inbound definition can be compared with the one that reads the messages now"
        )
    find, lists = active_sources(settings, database), {}
    for listener in active_settings.current(settings, database).listener:
        definitions = [check_cached(find(name), name).compiled for name in listener.mappings]
        lists[listener.name] = [
            definition for definition in definitions if isinstance(definition, InboundMapping)
        ]

    def compare_sample(sample: MessageSample) -> list[FieldDifference]:
        try:
            header = peek(sample.payload)
        except MalformedMessage:
            return []
        if not after.accepts(header, sample.charset):
            return []
        known = lists.get(sample.listener, ())
        readers = (mapping for mapping in known if mapping.accepts(header, sample.charset))
        before = next(readers, None)
        if before is None:
            return [FieldDifference("accepted", "no", "yes")]
        return compare(before, after, sample.payload, sample.defaults, sample.charset)

    return compare_sample


_TARGETS = {
    "order_control": "order:control",
    "order_status": "order:status",
    "result_status": "order:result_status",
    "placer": "order:placer",
    "filler": "order:filler",
    "prior_mrn": "prior_mrn",
    "prior_name": "prior_name",
}
"""The targets of members of an event, besides tags, Metadata and launch parameters."""


def changed_targets(
    before: InboundMapping | None, after: InboundMapping, sample: MessageSample
) -> list[dict[str, str]]:
    """
    Return the targets whose values differ from those of the active version, with both values.

    The place is that of the order; it is empty for `accepted`, `issues` and `lanes`. Without an
    active version, nothing differs.
    """
    if before is None or before.version == after.version:
        return []
    found = compare(before, after, sample.payload, sample.defaults, sample.charset)
    return [_changed_target(difference) for difference in found]


def _changed_target(found: FieldDifference) -> dict[str, str]:
    place, dot, member = found.field.partition("].")
    if not dot:
        return {"place": "", "target": found.field, "before": found.before, "after": found.after}
    target = _TARGETS.get(member, member)
    for prefix, kind in _PREFIXES:
        if member.startswith(prefix):
            target = kind + member.removeprefix(prefix)
            break
    return {
        "place": f"{place}]",
        "target": target,
        "before": found.before,
        "after": found.after,
    }


_PREFIXES = (
    ("clinical_info.Metadata.", "meta:"),
    ("clinical_info.", "tag:"),
    ("reporting_app.", "app:"),
    ("outside.", "report:"),
)
_SECONDS = 8.0
_MAX_PER_CONTROL_ID = 20
NOW = "now"
"""The version name that means the active definition with which the listener reads a message."""


@dataclass(frozen=True, slots=True)
class TrialMessage:
    """A message to try; the settings of `listener` supply defaults such as site and charset."""

    payload: bytes
    listener: str = ""
    mapping: str = ""
    """The definition that read a stored message, and its version."""
    version: str = ""


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    """Two versions to compare on the `last` stored messages."""

    name: str
    actor: str
    before: str
    after: str
    last: int
    values: bool = False
    """Whether the result contains field values; else field names and counts."""
    code: bool = False
    """Whether the actor has the permission `code`."""


class DefinitionTrials:
    """Trials and comparisons on sample messages; inference from samples. Blocking."""

    def __init__(self, settings: Settings, database: Database, client: EngineClient) -> None:
        self._settings = settings
        self._database = database
        self._previews = ResultPreviews(settings, database, client)
        self._find_version = version_finder(database)

    def stored_messages(self, name: str, last: int, control: str) -> Sequence[Mapping[str, Any]]:
        """Return the last stored messages of a definition, or those with a control id."""
        samples = self._with_control_id(control) if control else self._last(name, last)
        return [sample_json(sample) for sample in samples]

    def try_out(
        self,
        name: str,
        actor: str,
        version: str,
        messages: Sequence[TrialMessage],
        *,
        code: bool = False,
        traced: int | None = None,
    ) -> Mapping[str, Any]:
        """
        Map messages with a version; `code`: the actor has the permission `code`.

        Each result has what differs from that of the active version. The n-th message has a trace
        and its content with the tree; None: no message has them.
        """
        with as_operator_errors():
            definition = self._compile(name, actor, version, code=code)
        reader, before = self._reader(), self._active(name)
        late = deadline(_SECONDS)
        trials: list[Mapping[str, Any]] = []
        for number, message in enumerate(messages):
            if late():
                break
            sample = self._sample(name, message)
            result = dict(run_trial(definition, sample, reader))
            if isinstance(definition, InboundMapping):
                result["changed"] = changed_targets(before, definition, sample)
                if number == traced:
                    arguments = (sample.payload, sample.defaults, sample.charset)
                    result["trace"] = trace_payload(definition, *arguments)
            if number == traced:
                result["content"] = content_of(sample.payload, sample.charset)
            trials.append(result)
        return {
            "version": definition.version,
            "trials": trials,
            "left": len(messages) - len(trials),
        }

    def compare(self, request: ComparisonRequest) -> Mapping[str, Any]:
        """Return the stored messages whose results differ between two versions."""
        name, actor = request.name, request.actor
        samples = self._last(name, request.last)
        with as_operator_errors():
            after = self._compile(name, actor, request.after, code=request.code)
            if request.before == NOW:
                compare_sample = comparison_with_active(self._settings, self._database, after)
            else:
                before = self._compile(name, actor, request.before, code=request.code)
                compare_sample = make_comparison(before, after, self._reader())
        return comparison_json(
            compare_samples(samples, compare_sample, deadline(_SECONDS)),
            after.version,
            values=request.values,
        )

    async def compose_releases(
        self,
        name: str,
        actor: str,
        version: str,
        destination: str,
        last: int,
        *,
        code: bool = False,
    ) -> Mapping[str, Any]:
        """
        Compose the last releases of a destination with a version, as they would be sent now.

        Without `destination`, those of all destinations that use the definition. Raises NoSuchItem,
        InvalidContent, InvalidState.
        """
        with as_operator_errors():
            sources = await CONSOLE_THREADS.run(self.sources, name, actor, version, code=code)
            previews = await self._previews.compose(name, sources, destination, last)
            users = await CONSOLE_THREADS.run(self._previews.destinations, name)
        return {
            "destinations": [user.name for user in users],
            "trials": [preview.as_json() for preview in previews],
            "left": 0,
        }

    def infer(self, payloads: Sequence[bytes]) -> Mapping[str, Any]:
        """Infer a definition from sample messages."""
        return {**asdict(infer_definition(payloads)), "messages": len(payloads)}

    def _active(self, name: str) -> InboundMapping | None:
        """Return the active version of an inbound definition; None if there is none."""
        sources = active_sources(self._settings, self._database)(name)
        if f"{name}.yaml" not in sources:
            return None
        compiled = check_cached(sources, name).compiled
        return compiled if isinstance(compiled, InboundMapping) else None

    def _last(self, name: str, count: int) -> list[MessageSample]:
        return stored_samples(self._settings, self._database, name, count)

    def _with_control_id(self, control: str) -> list[MessageSample]:
        wanted = {"number": control, "kind": NumberKind.CONTROL.value}
        known = active_settings.current(self._settings, self._database).listener
        listeners = {listener.name: listener for listener in known}
        found = islice(iterate(self._database, MESSAGES, wanted), _MAX_PER_CONTROL_ID)
        return samples_of(
            self._database, listeners, (row for row in found if row.listener in listeners)
        )

    def _sample(self, name: str, message: TrialMessage) -> MessageSample:
        """
        Return a message with the defaults of its listener.

        A pasted message has no listener: it gets the defaults of one that uses the definition.
        """
        known = active_settings.current(self._settings, self._database).listener
        fit = [section for section in known if section.name == message.listener]
        fit += [section for section in known if name in section.mappings]
        listener = next(iter([*fit, *known]), None)
        now = datetime.now(UTC)
        if listener is None:
            return MessageSample("", message.payload, ListenerDefaults("", "UTC", now))
        defaults = ListenerDefaults(listener.site, listener.time_zone, now)
        return MessageSample(
            "",
            message.payload,
            defaults,
            listener.charset,
            listener.name,
            message.mapping,
            message.version,
        )

    def _compile(self, name: str, actor: str, version: str, *, code: bool) -> Compiled:
        found = check_cached(self.sources(name, actor, version, code=code), name)
        if found.compiled is None:
            raise InvalidContent(
                "the definition has mistakes", issues=[issue_json(issue) for issue in found.issues]
            )
        return found.compiled

    def sources(self, name: str, actor: str, version: str, *, code: bool) -> Sources:
        """Return the sources of a version; without a draft, `draft` is the active version."""
        try:
            sources = sources_of(self._settings, self._database, name, version, actor)
        except NoDraft:
            if version != DRAFT:
                raise
            sources = all_sources(self._settings, self._database, name)
        require_code_permission(self._settings, self._database, name, sources, code=code)
        return sources

    def _reader(self) -> OrderReader:
        """Return the finder of the version with which the orders of each message were read."""
        current = active_settings.current(self._settings, self._database)
        return OrderReaders(
            current, active_sources(self._settings, self._database), self._find_version
        )
