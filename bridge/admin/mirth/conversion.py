"""
Conversion of a channel export into an interface package.

The package has a listener and a definition for the source of each channel, and a destination for
each destination connector. All connections are disabled. What a channel does by JavaScript, and
what has no counterpart, is listed with its line; no script is run.

`convert` runs in a worker process (`bridge.admin.mirth.tasks`), because the document is a user's.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from bridge.admin.mirth.connectors import (
    ProposedConnection,
    Table,
    propose_destination,
    propose_listener,
    read_header_step,
)
from bridge.admin.mirth.definition import (
    ORDERS,
    PATIENTS,
    ProposedDefinition,
    accepted_messages,
    write_definition,
)
from bridge.admin.mirth.filters import FilterResult, read_filter
from bridge.admin.mirth.findings import (
    Finding,
    Findings,
    Outcome,
    printable,
    quoted,
    without_comments,
)
from bridge.admin.mirth.reader import Element, read_channels
from bridge.admin.mirth.steps import Steps, list_step, step_kind, transformer_steps
from mappings.authoring.yaml_writing import written as as_yaml
from mappings.language.diagnostics import Sources
from mappings.language.outline import outline

RESULTS: Final = frozenset({"ORU", "MDM"})
MAX_CHANNELS: Final = 50
_SCRIPTS: Final = {
    "preprocessingScript": "return message;",
    "postprocessingScript": "return;",
    "deployScript": "return;",
    "undeployScript": "return;",
    "shutdownScript": "return;",
}
"""Scripts of a channel, and what they are without comments if nobody wrote one."""
_DEFAULT_NAME: Final = re.compile(r"destination(-\d+)?")
_MAX_NAME: Final = 48


@dataclass(frozen=True, slots=True)
class ConvertedChannel:
    """A channel of the export: its name, version, line, and the names of the converted parts."""

    name: str
    version: str
    line: int
    listener: str
    definition: str
    destinations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Conversion:
    """
    A proposal: the tables of connections with their kinds, the definitions, and the findings.

    `definitions` are texts by file name. `issues` are the warnings and errors that the checker
    has about them.
    """

    connections: tuple[tuple[str, Table], ...]
    definitions: Sources
    channels: tuple[ConvertedChannel, ...]
    findings: tuple[Finding, ...]
    issues: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of_json(value: Mapping[str, Any]) -> "Conversion":
        """Return a conversion that `as_json` wrote."""
        channels = [
            {**entry, "destinations": (*entry["destinations"],)} for entry in value["channels"]
        ]
        findings = [{**entry, "outcome": Outcome(entry["outcome"])} for entry in value["findings"]]
        return Conversion(
            tuple((kind, table) for kind, table in value["connections"]),
            value["definitions"],
            tuple(ConvertedChannel(**entry) for entry in channels),
            tuple(Finding(**entry) for entry in findings),
            tuple(value["issues"]),
        )

    @property
    def unconverted(self) -> list[Finding]:
        return [found for found in self.findings if found.outcome is Outcome.NOT_CONVERTED]


@dataclass(frozen=True, slots=True)
class ConversionOptions:
    """
    What a channel does not say: the SiteID of its orders, and the zone of times without one.

    `name` is that of the listener and its definition, if the export has one channel.
    """

    name: str = ""
    site: str = ""
    time_zone: str = ""

    @property
    def table(self) -> Table:
        """The settings of a listener."""
        given = {"site": self.site, "time_zone": self.time_zone}
        return {key: value for key, value in given.items() if value}


def convert(document: bytes, sources: Sources, options: ConversionOptions) -> Conversion:
    """
    Convert an export; `sources` are the shipped definitions.

    Raises DocumentRefused for a document that is no export of channels.
    """
    root, channels = read_channels(document)
    converter = _Converter(sources, Findings(), options)
    for channel in channels[:MAX_CHANNELS]:
        converter.add_channel(channel, options.name if len(channels) == 1 else "")
    for channel in channels[MAX_CHANNELS:]:
        what = quoted(channel, "channel")
        converter.findings.left(channel.line, what, f"an import has {MAX_CHANNELS} channels")
    for finding in _code_templates(root):
        converter.findings.left(*finding)
    return converter.result()


class _Converter:
    """Collects the proposals of all channels."""

    def __init__(self, sources: Sources, findings: Findings, options: ConversionOptions) -> None:
        self.findings = findings
        self._options = options
        self._sources = sources
        self._connections: list[ProposedConnection] = []
        self._definitions: dict[str, str] = {}
        self._channels: list[ConvertedChannel] = []
        self._issues: list[str] = []
        self._names: set[str] = set()

    def result(self) -> Conversion:
        return Conversion(
            tuple((found.kind.value, found.table) for found in self._connections),
            self._definitions,
            tuple(self._channels),
            tuple(self.findings.sorted()),
            tuple(self._issues),
        )

    def add_channel(self, channel: Element, name: str) -> None:
        title = printable(" ".join(channel.value("name").split()))[:100]
        base = self._free(name or _short(title) or "channel")
        source = channel.child("sourceConnector") or channel
        result = read_filter(source, self.findings)
        codes = {code for code, _ in result.types}
        listener, definition = self._add_source(channel, source, base, result, codes)
        carries_results = bool(codes) and codes <= RESULTS
        mapping = "mdm" if codes == {"MDM"} else "results"
        destinations = [
            proposed
            for connector in channel.below("destinationConnectors")
            if connector.is_true("enabled", default=True)
            and (proposed := self._add_destination(connector, base, mapping)) is not None
        ]
        for connector in channel.below("destinationConnectors"):
            if not connector.is_true("enabled", default=True):
                self.findings.left(connector.line, quoted(connector, "destination"), "disabled")
        if destinations and not carries_results:
            self.findings.check(
                channel.line_of("destinationConnectors"),
                "destinations of a channel for orders",
                "Report Bridge sends results to destinations, and no received messages",
                "keep those that receive results; remove the others",
            )
        self._list_channel(channel, source)
        self._channels.append(
            ConvertedChannel(
                title,
                channel.attributes.get("version", "")[:20],
                channel.line,
                listener,
                definition,
                tuple(destinations),
            )
        )

    def _add_source(
        self,
        channel: Element,
        source: Element,
        name: str,
        result: FilterResult,
        codes: set[str],
    ) -> tuple[str, str]:
        """Propose listener and definition; return their names, empty without one."""
        unknown = sorted(codes - set(ORDERS) - {PATIENTS})
        if unknown:
            self.findings.left(
                source.line,
                f"messages {', '.join(unknown)[:80]}",
                "Report Bridge receives orders (ORM, OMG, OMI) and patients (ADT)",
                "results are composed from the reports and sent to a destination"
                if set(unknown) <= RESULTS
                else "keep these in Mirth",
            )
        if codes and codes <= set(unknown):
            for step in transformer_steps(source):
                list_step(step, self.findings, "a definition of results can change its fields")
            return "", ""
        only_patients = codes & (set(ORDERS) | {PATIENTS}) == {PATIENTS}
        include = "patients.yaml" if only_patients else "orders.yaml"
        names = {
            connector.value("metaDataId"): " ".join(connector.value("name").split())[:80]
            for connector in channel.below("destinationConnectors")
        }
        base = outline(self._sources, include.removesuffix(".yaml"))
        steps = Steps(base, self.findings, names)
        steps.read(source)
        also_patients = not only_patients and (not codes or PATIENTS in codes)
        mappings = [name, "patients"] if also_patients else [name]
        listener = propose_listener(source, name, mappings, self.findings)
        if listener is None:
            return "", ""
        listener.table.update(self._options.table)
        self._connections.append(listener)
        if not self._options.site:
            self.findings.left(
                source.line,
                "site of the orders",
                "a channel has none, and a listener needs it",
                "set `site` of the listener, and `time_zone` if its times are local",
            )
        version = channel.attributes.get("version", "")[:20]
        of_channel = f"channel “{' '.join(channel.value('name').split())[:80]}”"
        title = f"Proposed from the {of_channel} of Mirth {version}. Check each rule."
        if result.only is not None and only_patients:
            self.findings.left(
                result.only_line, "filter", "definitions of patients have no condition",
                f"it would be {as_yaml(result.only)}",
            )  # fmt: skip
            result.only = None
        definition = ProposedDefinition(
            name,
            include,
            title,
            accepted_messages(result, include),
            result.senders,
            result.only,
            result.only_line,
            list(steps.rules.values()),
        )
        text, issues = write_definition(definition, self._sources, self.findings)
        self._definitions[definition.file] = text
        self._issues += map(str, issues)
        return name, name

    def _add_destination(self, connector: Element, base: str, mapping: str) -> str | None:
        own = _short(connector.value("name"))
        name = self._free(f"{base}-out" if not own or _DEFAULT_NAME.fullmatch(own) else own)
        proposed = propose_destination(connector, name, mapping, self.findings)
        steps = transformer_steps(connector)
        if proposed is not None:
            self._connections.append(proposed)
        hint = "a definition that includes results.yaml writes fields; `sites` and `events` filter"
        for step in steps:
            what = quoted(step, step_kind(step).removesuffix("Step") + " step")
            is_builder = step_kind(step) == "MessageBuilderStep"
            if (
                proposed is not None
                and is_builder
                and read_header_step(step, what, proposed.table, self.findings)
            ):
                continue
            list_step(step, self.findings, hint)
        for step in transformer_steps(connector, "responseTransformer"):
            list_step(step, self.findings, "`replies` of a destination says what a reply leads to")
        self._list_filter(connector, hint)
        return None if proposed is None else name

    def _list_filter(self, connector: Element, hint: str) -> None:
        for rule in [*connector.below("filter", "elements"), *connector.below("filter", "rules")]:
            if rule.is_true("enabled", default=True):
                what = quoted(rule, "filter rule")
                self.findings.left(rule.line, what, "a destination has no filter", hint)

    def _list_channel(self, channel: Element, source: Element) -> None:
        """List the scripts and settings of a channel that have no counterpart."""
        for step in transformer_steps(source, "responseTransformer"):
            list_step(step, self.findings)
        for name, default in _SCRIPTS.items():
            script = channel.value(name)
            code = " ".join(without_comments(script).split())
            if code not in ("", default):
                self.findings.left(
                    channel.line_of(name), name, "JavaScript is not converted", excerpt=script
                )
        attachments = channel.value("properties", "attachmentProperties", "type")
        if attachments not in ("", "None"):
            self.findings.left(
                channel.line_of("properties", "attachmentProperties"),
                f"attachment handler {attachments[:40]}",
                "a message is stored complete",
            )
        for column in channel.below("properties", "metaDataColumns"):
            if column.value("mappingName") not in ("mirth_source", "mirth_type", "mirth_version"):
                self.findings.left(
                    column.line,
                    f"custom metadata column {column.value('name')[:60]}",
                    "each tag of an order is a column of the list of messages",
                )

    def _free(self, name: str) -> str:
        """Return a name that no other proposal has."""
        found, number = name, 1
        while found in self._names:
            number += 1
            found = f"{name}-{number}"
        self._names.add(found)
        return found


def _short(title: str) -> str:
    """Return a name for a connection and a definition."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:_MAX_NAME].strip("-")


def _code_templates(root: Element) -> Iterator[Sequence[Any]]:
    """Yield the code templates of an export, which are JavaScript."""
    for element in root.walk():
        if element.name == "codeTemplate" and element.child("name") is not None:
            code = element.value("properties", "code") or element.value("code")
            hint = "a hook in Python can do what a rule cannot"
            yield (element.line, quoted(element, "code template"), "JavaScript", hint, code)
