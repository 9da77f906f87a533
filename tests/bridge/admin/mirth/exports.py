"""Channel exports for tests, in the form of Mirth Connect 3.5 to 4.6 and of 3.0 to 3.4."""

from collections.abc import Sequence
from xml.sax.saxutils import escape

_RULE = "com.mirth.connect.plugins.rulebuilder.RuleBuilderRule"
_TCP = "com.mirth.connect.connectors.tcp"

LISTENER = f"""
<properties class="{_TCP}.TcpReceiverProperties" version="4.5.2">
  <pluginProperties/>
  <listenerConnectorProperties version="4.5.2">
    <host>0.0.0.0</host>
    <port>6661</port>
  </listenerConnectorProperties>
  <sourceConnectorProperties version="4.5.2">
    <responseVariable>Auto-generate (After source transformer)</responseVariable>
  </sourceConnectorProperties>
  <transmissionModeProperties class="com.mirth.connect.plugins.mllpmode.MLLPModeProperties">
    <startOfMessageBytes>0B</startOfMessageBytes>
    <endOfMessageBytes>1C0D</endOfMessageBytes>
    <useMLLPv2>false</useMLLPv2>
  </transmissionModeProperties>
  <serverMode>true</serverMode>
  <receiveTimeout>30000</receiveTimeout>
  <maxConnections>25</maxConnections>
  <charsetEncoding>ISO-8859-1</charsetEncoding>
  <respondOnNewConnection>0</respondOnNewConnection>
</properties>
<transportName>TCP Listener</transportName>"""

SENDER = f"""
<properties class="{_TCP}.TcpDispatcherProperties" version="4.5.2">
  <pluginProperties/>
  <destinationConnectorProperties version="4.5.2">
    <queueEnabled>true</queueEnabled>
    <retryIntervalMillis>10000</retryIntervalMillis>
  </destinationConnectorProperties>
  <serverMode>false</serverMode>
  <remoteAddress>10.1.9.9</remoteAddress>
  <remotePort>6662</remotePort>
  <responseTimeout>5000</responseTimeout>
  <charsetEncoding>DEFAULT_ENCODING</charsetEncoding>
  <template>${{message.encodedData}}</template>
</properties>
<transportName>TCP Sender</transportName>"""


def place(path: str) -> str:
    """Return the JavaScript of a path: `PID-3.1` is `msg['PID']['PID.3']['PID.3.1'].toString()`."""
    segment, _, numbers = path.partition("-")
    names, found = segment, f"msg['{segment}']"
    for number in numbers.split("."):
        names = f"{names}.{number}"
        found += f"['{names}']"
    return f"{found}.toString()"


def rule(field: str, condition: str, *values: str, operator: str = "AND", more: str = "") -> str:
    """Return a rule of the rule builder; the values are JavaScript."""
    listed = "".join(f"<string>{escape(value)}</string>" for value in values)
    return (
        f'<{_RULE} version="4.5.2"><name>rule</name><enabled>true</enabled>{more}'
        f"<operator>{operator}</operator><field>{escape(field)}</field>"
        f"<condition>{condition}</condition><values>{listed}</values></{_RULE}>"
    )


def mapper(variable: str, mapping: str, default: str = "", pairs: str = "") -> str:
    kind = "com.mirth.connect.plugins.mapper.MapperStep"
    return (
        f'<{kind} version="4.5.2"><name>{variable}</name><enabled>true</enabled>'
        f"<variable>{variable}</variable><mapping>{escape(mapping)}</mapping>"
        f"<defaultValue>{escape(default)}</defaultValue><replacements>{pairs}</replacements>"
        f"<scope>CHANNEL</scope></{kind}>"
    )


def replacement(pattern: str, text: str) -> str:
    kind = "org.apache.commons.lang3.tuple.ImmutablePair"
    return f"<{kind}><left>{escape(pattern)}</left><right>{escape(text)}</right></{kind}>"


def builder(target: str, mapping: str) -> str:
    kind = "com.mirth.connect.plugins.messagebuilder.MessageBuilderStep"
    return (
        f'<{kind} version="4.5.2"><name>move</name><messageSegment>{escape(target)}'
        f"</messageSegment><mapping>{escape(mapping)}</mapping><replacements/></{kind}>"
    )


def script(text: str, name: str = "fix") -> str:
    kind = "com.mirth.connect.plugins.javascriptstep.JavaScriptStep"
    return f"<{kind}><name>{name}</name>\n<script>{escape(text)}</script></{kind}>"


def destination(
    name: str = "Destination 1", properties: str = SENDER, steps: Sequence[str] = ()
) -> str:
    return (
        f"<connector><name>{name}</name>{properties}"
        f"<transformer><elements>{''.join(steps)}</elements></transformer>"
        "<filter><elements/></filter></connector>"
    )


def channel(
    *,
    name: str = "RIS in",
    source: str = LISTENER,
    rules: Sequence[str] = (),
    steps: Sequence[str] = (),
    destinations: Sequence[str] = (),
    more: str = "",
    version: str = "4.5.2",
) -> bytes:
    """Return the export of a channel."""
    parts = "\n".join(steps)
    return f"""<channel version="{version}">
<name>{escape(name)}</name>
<sourceConnector>{source}
<transformer><elements>
{parts}
</elements></transformer>
<filter><elements>
{"".join(rules)}
</elements></filter></sourceConnector>
<destinationConnectors>{"".join(destinations)}</destinationConnectors>
{more}
</channel>""".encode()
