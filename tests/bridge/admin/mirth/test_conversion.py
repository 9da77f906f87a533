"""A channel becomes an interface package that the checker accepts; the rest is listed."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.admin.mirth.channels import NotConverted, convert_export, package_files, report
from bridge.admin.mirth.conversion import Conversion, ConversionOptions, convert
from bridge.admin.mirth.findings import MAX_FINDINGS, Outcome
from bridge.admin.packages.activation import InterfacePackages, PackageImport, pack_zip
from bridge.store.database import Database
from bridge.store.databases import bridge_database
from config import load
from config.toml_text import parse_toml
from mappings.compiler import check_sources, compile_sources
from mappings.hl7.message import Message
from mappings.inbound.definition import InboundMapping
from mappings.language.diagnostics import IssueSeverity
from parsers.limits import DocumentRefused
from tests.bridge.admin.mirth.exports import (
    LISTENER,
    SENDER,
    builder,
    channel,
    destination,
    mapper,
    place,
    replacement,
    rule,
    script,
)
from tests.databases import create_migrated_home
from tests.mappings.definitions import DEFAULTS, SHIPPED

ORM = rule(place("MSH-9.1"), "EQUALS", "'ORM'")
ORDER = (
    "MSH|^~\\&|RIS|N|B|S|20260302080500||ORM^O01|C1|P|2.5.1\r"
    "PID|1|EXT1|M1^^^N^MR||Doe^Jane||19800102|F\r"
    "PV1|1|O|WARD1||||||REF^Own^Ann\r"
    "ORC|NW|P1|F1\r"
    "OBR|1|P1|ACC-7|CTH^Head CT|||20260302|" + "|" * 9 + "|OLD18||||||CT\r"
    "ZDS|U|NEW18|7^Doc^Zed"
).encode()


SITE = ConversionOptions(site="SITE1", time_zone="Europe/Zurich")


def converted(document: bytes, options: ConversionOptions = SITE) -> Conversion:
    return convert(document, SHIPPED, options)


def tables(conversion: Conversion) -> dict[str, list[dict[str, object]]]:
    """Return the tables of interface.toml."""
    return parse_toml(package_files(conversion)["interface.toml"], Path("interface.toml"))


def findings(conversion: Conversion, outcome: Outcome) -> list[str]:
    return [
        f"{found.what}: {found.text}" for found in conversion.findings if found.outcome is outcome
    ]


def left(conversion: Conversion) -> list[str]:
    return findings(conversion, Outcome.NOT_CONVERTED)


def mapped(*steps: str) -> dict[str, object]:
    """Return the tags and Metadata of `ORDER` by the definition of a channel with these steps."""
    conversion = converted(channel(rules=[ORM], steps=steps))
    assert left(conversion) == []
    sources = {**SHIPPED, **conversion.definitions}
    mapping = compile_sources(sources, "ris-in")
    assert isinstance(mapping, InboundMapping)
    (event,) = mapping.apply(Message.parse(ORDER), DEFAULTS)
    return {
        **event.clinical_info["Metadata"],
        **event.clinical_info,
        "PatientMRN": event.mrn,
        "Accession": event.accession,
    }


def test_connections() -> None:
    """Source and destination become a listener and a destination, both disabled."""
    steps = [
        builder("tmp['MSH']['MSH.5']['MSH.5.1']", "'HIS'"),
        builder("tmp['MSH']['MSH.12']", "'2.3.1'"),
    ]
    found = converted(channel(rules=[ORM], destinations=[destination("To HIS", steps=steps)]))
    assert tables(found) == {
        "listener": [
            {
                "name": "ris-in",
                "bind": "0.0.0.0:6661",
                "charset": "iso-8859-1",
                "max_connections": 25,
                "idle_timeout": 30.0,
                "enabled": False,
                "mappings": ["ris-in"],
                "site": "SITE1",
                "time_zone": "Europe/Zurich",
            }
        ],
        "destination": [
            {
                "name": "to-his",
                "address": "10.1.9.9:6662",
                "ack_timeout": 5.0,
                "enabled": False,
                "mapping": "results",
                "retry_first": 10.0,
                "fields": {"receiving_application": "HIS"},
                "version": "2.3.1",
            }
        ],
    }
    assert left(found) == []


def test_a_name_of_choice() -> None:
    """A name given by the user is that of listener and definition."""
    found = converted(channel(), ConversionOptions("north"))
    assert tables(found)["listener"][0]["name"] == "north"
    assert list(found.definitions) == ["north.yaml"]
    assert left(found) == ["site of the orders: a channel has none, and a listener needs it"]


@pytest.mark.parametrize(
    ("step", "name", "value"),
    [
        (mapper("mrn", place("PID-2.1")), "PatientMRN", "EXT1"),
        (mapper("AccessionNumber", place("OBR-3.1")), "Accession", "ACC-7"),
        (
            mapper("accession", place("OBR-3.1"), pairs=replacement("/^ACC-/", "''")),
            *("Accession", "7"),
        ),
        (mapper("modality", place("OBR-24.1")), "Modality", "CT"),
        (mapper("ward", place("PV1-3.1")), "ward", "WARD1"),
        (mapper("room", place("PV1-3.2"), "'none'"), "room", "none"),
        (mapper("either", place("PV1-3.2"), place("PV1-3.1")), "either", "WARD1"),
        (mapper("year", f"{place('OBR-7.1')}.substring(0, 4)"), "year", "2026"),
        (mapper("kind", "'RAD'"), "kind", "RAD"),
        (builder("msg['OBR']['OBR.18']['OBR.18.1']", place("ZDS-2.1")), "Accession", "NEW18"),
        (builder("tmp['PV1']['PV1.8']", "msg['ZDS']['ZDS.3']"), "ReferringPhysician", "Zed Doc"),
        (builder("tmp['PID']['PID.8']['PID.8.1']", "'M'"), "PatientSex", "M"),
    ],
)
def test_steps(step: str, name: str, value: str) -> None:
    """A converted step gives an order the same value as in Mirth."""
    assert mapped(step)[name] == value


def test_steps_that_follow_each_other() -> None:
    """A step may read the variable of a former one; two steps may change one rule."""
    found = mapped(
        mapper("first", place("PID-2.1")),
        mapper("mrn", "$('first')"),
        builder("msg['OBR']['OBR.3']['OBR.3.1']", "$('first')"),
        mapper("accession", place("OBR-20")),
    )
    assert (found["PatientMRN"], found["first"]) == ("EXT1", "EXT1")


def test_scripts_are_listed() -> None:
    """A script has its line, its first line of code, and the rules that it resembles."""
    text = f"// why\n\nvar sex = {place('PID-8.1')};\nchannelMap.put('x', {place('OBR-4.1')});"
    found = converted(channel(rules=[ORM], steps=[mapper("a", place("PV1-2")), script(text)]))
    (finding,) = found.unconverted
    assert (finding.line, finding.what) == (27, "JavaScript step “fix”")
    assert finding.excerpt == f"var sex = {place('PID-8.1')};"
    assert finding.hint == "line 30: sex is PID-8.1; line 31: x is OBR-4.1"


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (mapper("x", "msg['PID']['PID.3']['PID.3.1'].toString() + 'x'"), "is JavaScript"),
        (mapper("x", "$('nowhere')"), "is JavaScript"),
        (mapper("x", "msg['OBR'][1]['OBR.4']"), "is JavaScript"),
        (mapper("x", place("PID-8"), pairs=replacement("/a(.)/g", "'$1'")), "regular expressions"),
        (builder("tmp['OBX'][i]['OBX.5']", "'x'"), "writes to an expression"),
        (builder("tmp['MSH']['MSH.5']", "'HIS'"), "no order needs"),
        ("<com.mirth.connect.plugins.xsltstep.XsltStep/>", "XSLT"),
        ("<com.mirth.connect.model.IteratorStep/>", "repetitions"),
    ],
)  # fmt: skip
def test_steps_that_are_not_converted(step: str, reason: str) -> None:
    found = converted(channel(rules=[ORM], steps=[step]))
    (text,) = left(found)
    assert reason in text
    assert "mine" not in found.definitions["ris-in.yaml"]


def test_a_destination_set_filter_is_told_in_words() -> None:
    """The report says which destinations a message does not go to, and when."""
    kind = "com.mirth.connect.plugins.destinationsetfilter.DestinationSetFilterStep"
    step = (
        f"<{kind}><name>set</name><behavior>REMOVE</behavior><metaDataIds><int>1</int></metaDataIds>"
        f"<field>{place('MSH-4.1')}</field><condition>EQUALS</condition>"
        f"<values><string>'NORTH'</string></values></{kind}>"
    )
    sender = destination("To HIS").replace("<name>", "<metaDataId>1</metaDataId><name>", 1)
    found = converted(channel(rules=[ORM], steps=[step], destinations=[sender]))
    (finding,) = found.unconverted
    assert finding.text == "{MSH-4.1: NORTH}: not to “To HIS”"
    assert "sites" in finding.hint


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (">0B<", ">02<", "one frame"),
        ("<serverMode>true", "<serverMode>false", "connects to the sender"),
        ("tcp.TcpReceiverProperties", "vm.VmReceiverProperties", "receives by MLLP"),
        (">6661<", ">${port}<", "2575 is used"),
        ("Auto-generate (After source transformer)", "Postprocessor", "acknowledges each message"),
        ("ISO-8859-1", "EBCDIC-XX", "is unknown"),
        ("<pluginProperties/>", "<pluginProperties><a.b.SslProperties/></pluginProperties>",
         "settings of a plugin"),
        (">0</respondOn", ">1</respondOn", "on the connection of its message"),
    ],
)  # fmt: skip
def test_settings_of_a_source(before: str, after: str, reason: str) -> None:
    assert before in LISTENER
    found = converted(channel(rules=[ORM], source=LISTENER.replace(before, after)))
    (text,) = left(found)
    assert reason in text


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("10.1.9.9", "${host}", "has a variable"),
        ("<serverMode>false", "<serverMode>true", "waits for the receiver"),
        ("DEFAULT_ENCODING", "ISO-8859-1", "sent as UTF-8"),
        ("${message.encodedData}", "MSH|${x}", "composes the message"),
        ("tcp.TcpDispatcherProperties", "jdbc.DatabaseDispatcherProperties", "sends results by"),
        ("10.1.9.9", "", "not valid"),
    ],
)
def test_settings_of_a_destination(before: str, after: str, reason: str) -> None:
    properties = SENDER.replace(before, after)
    found = converted(channel(rules=[ORM], destinations=[destination(properties=properties)]))
    (text,) = left(found)
    assert reason in text


def test_folders_and_http() -> None:
    """Folders are placed inside the data directory; an address with https has TLS."""
    file = "com.mirth.connect.connectors.file.FileReceiverProperties"
    source = f"<properties class='{file}'><scheme>FILE</scheme><host>/data/in</host></properties>"
    http = "com.mirth.connect.connectors.http.HttpDispatcherProperties"
    sender = f"<properties class='{http}'><host>https://his.test/hl7</host></properties>"
    found = tables(converted(channel(source=source, destinations=[destination(properties=sender)])))
    assert found["listener"][0]["bind"] == "folder:inbox"
    assert found["destination"][0]["address"] == "https://his.test/hl7"
    ftp = source.replace(">FILE<", ">SFTP<")
    assert any("SFTP is not supported" in text for text in left(converted(channel(source=ftp))))


def test_kinds_of_messages() -> None:
    """ADT has a definition of patients, results have no listener, others stay in Mirth."""
    adt = converted(channel(rules=[rule(place("MSH-9.1"), "EQUALS", "'ADT'")]))
    assert "include: patients.yaml" in adt.definitions["ris-in.yaml"]
    assert tables(adt)["listener"][0]["mappings"] == ["ris-in"]
    both = converted(channel(rules=[rule(place("MSH-9.1"), "EQUALS", "'ADT'", "'ORM'")]))
    assert tables(both)["listener"][0]["mappings"] == ["ris-in", "patients"]
    oru = converted(
        channel(rules=[rule(place("MSH-9.1"), "EQUALS", "'ORU'")], destinations=[destination()])
    )
    assert list(tables(oru)) == ["destination"]
    siu = converted(channel(rules=[rule(place("MSH-9.1"), "EQUALS", "'SIU'")]))
    assert package_files(siu) == {}
    assert [found.hint for found in siu.unconverted] == ["keep these in Mirth"]


def test_scripts_of_the_channel_and_code_templates() -> None:
    """Scripts are listed if somebody wrote them."""
    more = """<preprocessingScript>// Modify the message variable below
return message;</preprocessingScript><deployScript>return;</deployScript>
<postprocessingScript>logger.info('x');</postprocessingScript>
<exportData><codeTemplateLibraries><codeTemplateLibrary><name>L</name><codeTemplates>
<codeTemplate><name>trimmed</name><properties><code>/** d */
function trimmed(x) {}</code></properties></codeTemplate>
</codeTemplates></codeTemplateLibrary></codeTemplateLibraries></exportData>"""
    found = converted(channel(rules=[ORM], more=more))
    assert [(finding.what, finding.excerpt) for finding in found.unconverted] == [
        ("postprocessingScript", "logger.info('x');"),
        ("code template “trimmed”", "function trimmed(x) {}"),
    ]


def test_templates_with_patients_are_not_shown() -> None:
    """Sample messages of a transformer do not get into package or report."""
    document = channel(rules=[ORM], steps=[mapper("x", place("PV1-2"))]).replace(
        b"</transformer>", b"<inboundTemplate>CANARY</inboundTemplate></transformer>", 1
    )
    found = converted(document)
    assert "CANARY" not in report(found) + "".join(package_files(found).values())


def test_a_report_of_bounded_length() -> None:
    """An export of very many steps has a report that says how many are not listed."""
    found = converted(channel(rules=[ORM], steps=[script("x()")] * (MAX_FINDINGS + 10)))
    assert len(found.findings) == MAX_FINDINGS + 1
    assert found.findings[-1].text == "13 more parts are not listed"


def test_no_character_reaches_a_terminal() -> None:
    """Control characters of an export are blanks in report and package."""
    found = converted(
        channel(
            name="A\x9b31m",
            rules=[ORM],
            steps=[script("x('\x9b')", "b\x9b"), mapper("c\x9b", "'\x9b'")],
        )
    )
    assert "\x9b" not in report(found) + "".join(package_files(found).values())


OLD = """<channel version="3.4.2"><name>Old</name><sourceConnector>%s
<transformer><steps><com.mirth.connect.model.Step><sequenceNumber>0</sequenceNumber>
<name>mrn</name><script>var mapping;</script><type>Mapper</type><data class="map">
<entry><string>Variable</string><string>mrn</string></entry>
<entry><string>Mapping</string><string>msg['PID']['PID.2']['PID.2.1'].toString()</string></entry>
<entry><string>DefaultValue</string><string/></entry>
<entry><string>RegularExpressions</string><list/></entry>
<entry><string>isGlobal</string><string>channel</string></entry></data>
</com.mirth.connect.model.Step><com.mirth.connect.model.Step><name>js</name>
<script>doIt();</script><type>JavaScript</type><data class="map"/>
</com.mirth.connect.model.Step></steps></transformer>
<filter><rules><com.mirth.connect.model.Rule><name>orm</name><type>Rule Builder</type>
<data class="map">
<entry><string>Field</string><string>msg['MSH']['MSH.9']['MSH.9.1']</string></entry>
<entry><string>Equals</string><string>1</string></entry>
<entry><string>Values</string><list><string>"ORM"</string></list></entry></data>
<operator>NONE</operator></com.mirth.connect.model.Rule></rules></filter></sourceConnector>
<destinationConnectors/></channel>"""


def test_versions_before_3_5() -> None:
    """Rules and steps of former versions are converted as well."""
    found = converted((OLD % LISTENER).encode())
    text = found.definitions["old.yaml"]
    assert "messages: [ORM^O01]" in text
    assert "PatientMRN: {from: [PID-2.1," in text
    assert left(found) == ["JavaScript step “js”: JavaScript is not converted"]


def test_several_channels() -> None:
    """Names are unique; a name of the user would be ambiguous."""
    found = converted(b"<list>" + channel() + channel() + b"</list>", replace(SITE, name="mine"))
    assert [entry.listener for entry in found.channels] == ["ris-in", "ris-in-2"]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    create_migrated_home(tmp_path / "home")
    with bridge_database(tmp_path / "home") as database:
        yield database


def test_the_package_is_imported(tmp_path: Path, database: Database) -> None:
    """The console imports the proposal; its connections are disabled."""
    steps = [mapper("mrn", place("PID-2.1")), script("x()")]
    found = convert_export(channel(rules=[ORM], steps=steps, destinations=[destination()]), SITE)
    packages = InterfacePackages(load(tmp_path / "home"), database, lambda: 1_000)
    data = pack_zip(package_files(found))
    preview = packages.preview(data)
    assert [entry["change"] for entry in preview["connections"]] == ["new", "new"]
    packages.import_zip(PackageImport(data, preview["mark"], "ann", "from Mirth"))
    assert packages.preview(data)["files"] == []


def test_a_document_that_is_no_export() -> None:
    """The text says why and where, without content of the document."""
    with pytest.raises(NotConverted, match=r"^line 1: the file has a DTD$"):
        convert_export(b"<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>")


FRAGMENTS = st.sampled_from(
    [
        mapper("mrn", place("PID-2.1")),
        mapper("a b\n#", "'x: # {'", "'\"'"),
        mapper("accession", place("OBR-999.1")),
        mapper("", ""),
        builder("tmp['PID']['PID.3']", "msg['PID']['PID.4']"),
        builder("tmp['PID']['PID.5']['PID.5.1']", "'\\\\ \t é'"),
        builder(
            "tmp['OBR']['OBR.7']", "DateUtil.convertDate('x', 'yyyyMMdd', msg['OBR']['OBR.36'])"
        ),
        script("]]"),
        "<x/>",
        "text",
    ]
)
RULES = st.sampled_from(
    [
        ORM,
        rule(place("PID-5.1"), "CONTAINS", "'('", "'é\\n'", operator="OR"),
        rule(place("PID-5.1"), "NOT_EQUAL", "' '"),
        rule(place("MSH-3.1"), "EQUALS", "'A*'"),
        rule("", "EXISTS"),
        rule(place("ZZZ-1.1.1"), "EQUALS"),
    ]
)


@settings(max_examples=120, deadline=None)
@given(st.lists(FRAGMENTS, max_size=5), st.lists(RULES, max_size=4), st.integers(0, 5), st.data())
def test_any_export_gives_a_valid_proposal_or_a_refusal(
    steps: list[str], rules: list[str], cuts: int, data: st.DataObject
) -> None:
    """Whatever a document contains, the proposed definitions have no error."""
    document = channel(rules=rules, steps=steps, destinations=[destination()]).decode()
    for _ in range(cuts):
        elements = list(re.finditer(r"<(\w+)>[^<]*</\1>", document))
        found = data.draw(st.sampled_from(elements))
        text = data.draw(st.sampled_from(["", "<none/>", "&#233;", "-1", "9" * 30]))
        document = document[: found.start(0)] + text + document[found.end(0) :]
    try:
        conversion = convert(document.encode(), SHIPPED, SITE)
    except DocumentRefused:
        return
    names = [file.removesuffix(".yaml") for file in conversion.definitions]
    issues = check_sources({**SHIPPED, **conversion.definitions}, names, tables=False)
    assert [issue for issue in issues if issue.severity is IssueSeverity.ERROR] == []
    assert Conversion.of_json(conversion.as_json()) == conversion
