"""
Connectors of a channel: the source becomes a listener, destinations become destinations.

All proposed connections are disabled: a person enables them after the settings that a channel does
not have, such as the site, are complete.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from bridge.admin.mirth.expressions import Constant, Place, parse
from bridge.admin.mirth.findings import Findings, quoted
from bridge.admin.mirth.reader import Element
from config.listeners import ListenerSettings
from config.problems import describe_problems
from config.quantities import parse_connection_address
from config.sections import ChannelKind, DestinationSettings
from mappings.hl7.charset import is_codec

Table = dict[str, Any]

_MODELS: Final[Mapping[ChannelKind, type[ListenerSettings] | type[DestinationSettings]]] = {
    ChannelKind.LISTENER: ListenerSettings,
    ChannelKind.DESTINATION: DestinationSettings,
}
_VARIABLE: Final = re.compile(r"\$\{|\$[A-Za-z]")
_WHOLE_MESSAGE: Final = frozenset(
    {"${message.encodedData}", "${message.rawData}", "${message.transformedData}"}
)
_ACKNOWLEDGE: Final = {
    "Auto-generate (Before processing)": "stored",
    "Auto-generate (After source transformer)": "checked",
    "Auto-generate (Destinations completed)": "applied",
}
_FIELDS: Final = {
    3: "sending_application",
    4: "sending_facility",
    5: "receiving_application",
    6: "receiving_facility",
}
"""Settings of `fields` of a destination, by the field of MSH."""
_DEFAULT_CONNECTIONS: Final = 10
_LONGEST_RETRY: Final = 60.0
_OWN_PLUGINS: Final = re.compile(r"\.(NoneHttpAuthProperties|DestinationConnectorProperties)$")
_PORT: Final = "2575"


@dataclass(frozen=True, slots=True)
class ProposedConnection:
    """A table of interface.toml, and the line of its connector."""

    kind: ChannelKind
    line: int
    table: Table


def transport(connector: Element) -> str:
    """Return the name of a connector's transport, such as `TCP Listener`."""
    return connector.value("transportName") or "connector"


def class_name(element: Element) -> str:
    """Return the last part of an element's Java class."""
    return element.attributes.get("class", "").rpartition(".")[2]


def propose_listener(
    connector: Element, name: str, mappings: list[str], findings: Findings
) -> ProposedConnection | None:
    """Return the listener of a source connector; None if it has no counterpart."""
    properties = connector.child("properties") or connector
    readers: dict[str, Callable[[Element, str, Findings], Table | None]] = {
        "TcpReceiverProperties": _tcp_listener,
        "HttpReceiverProperties": _http_listener,
        "FileReceiverProperties": _folder_listener,
    }
    read = readers.get(class_name(properties))
    what = f"source connector {transport(connector)}"
    if read is None:
        findings.left(
            connector.line,
            what,
            "Report Bridge receives by MLLP, HL7 over HTTP and from folders",
        )
        return None
    table = read(properties, what, findings)
    if table is None:
        return None
    table = {"name": name, **table, "enabled": False, "mappings": mappings}
    _read_response(properties, table, findings)
    _list_plugins(properties, what, findings)
    return _checked(ChannelKind.LISTENER, connector.line, what, table, findings)


def propose_destination(
    connector: Element, name: str, mapping: str, findings: Findings
) -> ProposedConnection | None:
    """Return the destination of a destination connector; None if it has no counterpart."""
    properties = connector.child("properties") or connector
    readers: dict[str, Callable[[Element, str, Findings], Table | None]] = {
        "TcpDispatcherProperties": _tcp_destination,
        "HttpDispatcherProperties": _http_destination,
        "FileDispatcherProperties": _folder_destination,
    }
    read = readers.get(class_name(properties))
    what = quoted(connector, f"destination {transport(connector)}")
    if read is None:
        findings.left(
            connector.line,
            what,
            "Report Bridge sends results by MLLP, HL7 over HTTP and to folders",
        )
        return None
    table = read(properties, what, findings)
    if table is None:
        return None
    table = {"name": name, **table, "enabled": False, "mapping": mapping}
    _read_queue(properties, what, table, findings)
    _list_plugins(properties, what, findings)
    return _checked(ChannelKind.DESTINATION, connector.line, what, table, findings)


def read_header_step(step: Element, what: str, table: Table, findings: Findings) -> bool:
    """
    Take a Message Builder step that writes a constant to MSH-3 to MSH-6, or the version.

    Return False if it is another step.
    """
    target, value = parse(step.value("messageSegment")), parse(step.value("mapping"))
    if not (isinstance(target, Place) and isinstance(value, Constant)):
        return False
    if target.segment != "MSH" or step.below("replacements") or target.component > 1:
        return False
    if (key := _FIELDS.get(target.field)) is not None:
        table.setdefault("fields", {})[key] = value.text
        findings.converted(step.line, what, f"fields.{key} = {value.text!r}")
        return True
    if target.field == 12 and value.text in ("2.3", "2.3.1", "2.4", "2.5.1"):  # noqa: PLR2004
        table["version"] = value.text
        findings.converted(step.line, what, f"version = {value.text!r}")
        return True
    return False


def _tcp_listener(properties: Element, what: str, findings: Findings) -> Table | None:
    if not properties.is_true("serverMode", default=True):
        findings.left(
            properties.line_of("serverMode"),
            what,
            "it connects to the sender (mode client); a listener waits for senders",
        )
        return None
    table: Table = {"bind": _bind(properties, what, findings)}
    if not _read_framing(properties, what, table, findings):
        return None
    _read_charset(properties, "charsetEncoding", what, table, findings)
    connections = properties.value("maxConnections")
    if connections.isdecimal() and int(connections) not in (0, _DEFAULT_CONNECTIONS):
        table["max_connections"] = int(connections)
    if seconds := _seconds(properties.value("receiveTimeout")):
        table["idle_timeout"] = seconds
    if properties.value("respondOnNewConnection") not in ("", "0"):
        findings.left(
            properties.line_of("respondOnNewConnection"),
            f"{what}: response on a new connection",
            "an acknowledgment is sent on the connection of its message",
        )
    findings.converted(properties.line, what, f"MLLP listener at {table['bind']}")
    return table


def _http_listener(properties: Element, what: str, findings: Findings) -> Table | None:
    path = properties.value("contextPath").strip("/")
    if _VARIABLE.search(path):
        path = ""
    table: Table = {"bind": f"http://{_bind(properties, what, findings)}/{path}"}
    _read_charset(properties, "charset", what, table, findings)
    findings.check(
        properties.line,
        what,
        f"HL7 over HTTP at {table['bind']}",
        "a sender posts one HL7 message as application/hl7-v2; other bodies are refused",
    )
    return table


def _folder_listener(properties: Element, what: str, findings: Findings) -> Table | None:
    folder = _folder(properties, what, "inbox", findings)
    if folder is None:
        return None
    table: Table = {"bind": folder}
    frequency = _seconds(properties.value("pollConnectorProperties", "pollingFrequency"))
    if frequency and properties.value("pollConnectorProperties", "pollingType") == "INTERVAL":
        table["scan_every"] = frequency
    if (pattern := properties.value("fileFilter")) not in ("", "*", "*.hl7"):
        findings.check(
            properties.line_of("fileFilter"),
            f"{what}: file name filter {pattern[:80]}",
            "a listener reads all files of its folder",
        )
    _read_charset(properties, "charsetEncoding", what, table, findings)
    return table


def _tcp_destination(properties: Element, what: str, findings: Findings) -> Table | None:
    if properties.is_true("serverMode"):
        findings.left(
            properties.line_of("serverMode"),
            what,
            "it waits for the receiver; a destination connects",
        )
        return None
    address = f"{properties.value('remoteAddress')}:{properties.value('remotePort')}"
    if _VARIABLE.search(address):
        findings.left(
            properties.line_of("remoteAddress"),
            what,
            "its address has a variable",
            "add a destination for each receiver; `sites` says whose results it gets",
        )
        return None
    table: Table = {"address": address}
    if not _read_framing(properties, what, table, findings):
        return None
    table.pop("commit_blocks", None)
    if seconds := _seconds(properties.value("responseTimeout")):
        table["ack_timeout"] = seconds
    if properties.is_true("ignoreResponse"):
        findings.left(
            properties.line_of("ignoreResponse"),
            f"{what}: ignore response",
            "a result is delivered when the receiver acknowledges it",
        )
    charset = properties.value("charsetEncoding")
    if charset not in ("", "DEFAULT_ENCODING", "UTF-8"):
        findings.left(
            properties.line_of("charsetEncoding"),
            f"{what}: character set {charset[:40]}",
            "results are sent as UTF-8, which MSH-18 names",
        )
    _read_template(properties, "template", what, findings)
    findings.converted(properties.line, what, f"MLLP destination at {address}")
    return table


def _http_destination(properties: Element, what: str, findings: Findings) -> Table | None:
    address = properties.value("host")
    try:
        parse_connection_address(address)
    except ValueError:
        findings.left(
            properties.line_of("host"), what, "its address has a variable, a query or credentials"
        )
        return None
    if _VARIABLE.search(address) or not address.startswith(("http://", "https://")):
        findings.left(properties.line_of("host"), what, "its address has a variable")
        return None
    table: Table = {"address": address}
    if address.startswith("https://"):
        table["tls"] = {}
    if seconds := _seconds(properties.value("socketTimeout")):
        table["ack_timeout"] = seconds
    if properties.is_true("useAuthentication"):
        findings.left(
            properties.line_of("useAuthentication"),
            f"{what}: authentication",
            "a password is not copied",
            "write the Authorization header into a file, and name it in authorization_file",
        )
    for setting in ("headers", "parameters"):
        if properties.below(setting):
            findings.left(properties.line_of(setting), f"{what}: {setting}", "not sent")
    _read_template(properties, "content", what, findings)
    findings.check(
        properties.line,
        what,
        f"HL7 over HTTP to {address}",
        "a result is posted as application/hl7-v2, and the reply must be an HL7 acknowledgment",
    )
    return table


def _folder_destination(properties: Element, what: str, findings: Findings) -> Table | None:
    folder = _folder(properties, what, "outbox", findings)
    if folder is None:
        return None
    _read_template(properties, "template", what, findings)
    return {"address": folder}


def _bind(properties: Element, what: str, findings: Findings) -> str:
    host = properties.value("listenerConnectorProperties", "host")
    port = properties.value("listenerConnectorProperties", "port")
    if _VARIABLE.search(host) or not host:
        host = "0.0.0.0"  # noqa: S104  # the default of Mirth; the listener is disabled
    if not port.isdecimal() or not 0 < int(port) < 2**16:
        findings.left(
            properties.line_of("listenerConnectorProperties", "port"),
            f"{what}: port {port[:40]}",
            f"the port is not a number; {_PORT} is used",
        )
        port = _PORT
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _read_framing(properties: Element, what: str, table: Table, findings: Findings) -> bool:
    """Read the framing; False if it is not MLLP."""
    mode = properties.child("transmissionModeProperties")
    if mode is None:
        return True
    begin, end = mode.value("startOfMessageBytes"), mode.value("endOfMessageBytes")
    if (begin.upper() or "0B", end.upper() or "1C0D") != ("0B", "1C0D"):
        findings.left(
            mode.line,
            f"{what}: framing {begin[:20]} … {end[:20]}",
            "a message has one frame: 0B before it, 1C0D after it",
        )
        return False
    if mode.is_true("useMLLPv2"):
        table["commit_blocks"] = True
    return True


def _read_charset(
    properties: Element, setting: str, what: str, table: Table, findings: Findings
) -> None:
    charset = properties.value(setting)
    if not charset:
        return
    line = properties.line_of(setting)
    if charset == "DEFAULT_ENCODING":
        findings.check(
            line,
            f"{what}: character set of the server",
            "UTF-8 is used for messages without MSH-18",
            "if the server of Mirth had another character set, set `charset`",
        )
    elif is_codec(charset):
        table["charset"] = charset.lower()
    else:
        findings.left(line, f"{what}: character set {charset[:40]}", "it is unknown")


def _read_response(properties: Element, table: Table, findings: Findings) -> None:
    """Read when the acknowledgment is sent, and how batches are treated."""
    source = properties.child("sourceConnectorProperties")
    if source is None:
        return
    response = source.value("responseVariable")
    line = source.line_of("responseVariable")
    if (guarantee := _ACKNOWLEDGE.get(response)) is not None:
        if guarantee != "checked":
            table["acknowledge"] = guarantee
        findings.converted(line, f"response “{response}”", f'acknowledge = "{guarantee}"')
    elif response:
        findings.left(
            line,
            f"response “{response[:60]}”",
            "Report Bridge acknowledges each message itself",
            "docs/reference/acknowledgments.md lists the codes",
        )


def _read_queue(properties: Element, what: str, table: Table, findings: Findings) -> None:
    queue = properties.child("destinationConnectorProperties") or properties.child(
        "queueConnectorProperties"
    )
    if queue is None:
        return
    if seconds := _seconds(queue.value("retryIntervalMillis")):
        table["retry_first"] = seconds
        if seconds > _LONGEST_RETRY:
            table["retry_max"] = seconds
    if not queue.is_true("queueEnabled"):
        findings.check(
            queue.line_of("queueEnabled"),
            f"{what}: without a queue",
            "Report Bridge queues each result until the receiver replies",
        )
    elif queue.is_true("rotate"):
        findings.check(
            queue.line_of("rotate"),
            f"{what}: rotating queue",
            "results of one report stay in sequence, those of other reports do not wait for them",
        )


def _read_template(properties: Element, setting: str, what: str, findings: Findings) -> None:
    template = properties.value(setting)
    if template and template not in _WHOLE_MESSAGE:
        findings.left(
            properties.line_of(setting),
            f"{what}: template",
            "the mapping of the destination composes the message",
            excerpt=template,
        )


def _folder(properties: Element, what: str, name: str, findings: Findings) -> str | None:
    scheme, host = properties.value("scheme") or "FILE", properties.value("host")
    if scheme != "FILE":
        findings.left(properties.line_of("scheme"), what, f"{scheme[:20]} is not supported")
        return None
    findings.check(
        properties.line_of("host"),
        what,
        f'"folder:{name}" inside the data directory replaces {host[:120]}',
        "mount the folder there, or name its path in bridge.toml",
    )
    return f"folder:{name}"


def _list_plugins(properties: Element, what: str, findings: Findings) -> None:
    """List settings of plugins, such as TLS."""
    for plugin in properties.below("pluginProperties"):
        if not _OWN_PLUGINS.search(plugin.name):
            findings.left(
                plugin.line,
                f"{what}: {plugin.name.rpartition('.')[2]}",
                "settings of a plugin",
                "TLS: set `tls` of the listener or destination; keys and certificates are not in"
                " the export",
            )


def _seconds(milliseconds: str) -> float:
    """Return seconds, 0 for a text that is no number."""
    return int(milliseconds) / 1000 if milliseconds.isdecimal() and len(milliseconds) < 12 else 0.0  # noqa: PLR2004


def _checked(
    kind: ChannelKind, line: int, what: str, table: Table, findings: Findings
) -> ProposedConnection | None:
    """Return a connection whose settings are valid; list settings that had to be left out."""
    for _ in range(len(table)):
        model = _MODELS[kind]
        try:
            model.model_validate(table)
        except ValidationError as error:
            problem = describe_problems(error, model, kind.value)[0]
            setting = next((part for part in problem.location if part in table), "")
            if setting in ("", "name", "bind", "address"):
                findings.left(line, what, f"its settings are not valid: {problem.message}")
                return None
            table.pop(str(setting))
            findings.left(line, f"{what}: {setting}", problem.message)
        else:
            return ProposedConnection(kind, line, table)
    return None
