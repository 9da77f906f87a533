"""The message tree: every part with its name, its meaning, and its position in the message."""

from pathlib import Path as File

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings.hl7.message import Message
from mappings.hl7.refusals import MalformedMessage
from mappings.hl7.tree import MAX_PLACES, MAX_SEGMENTS, MAX_TEXT, MessageTree, Node, message_tree
from tests.corpus import CORPUS

HEADER = "MSH|^~\\&|RIS|NORTH|BRIDGE|HUB|20260102030405||ORM^O01^ORM_O01|A1|P|2.5.1||||||{}"
ORDER = (
    HEADER.format("UNICODE UTF-8"),
    "PID|1||A100^^^NORTH&1.2.3&ISO^MR~756.1^^^^NI||MÜLLER^JÜRGEN^K||19580714|M",
    "ORC|NW|P1|F1",
    "OBR|1|P1|F1|CT1^CT \\T\\ chest^L|||||||||clinical \\.br\\ text||||Z1|ACC7001||||||CT",
    "ORC|NW|P2|F2",
    "OBR|2|P2|F2|MR1^MR head^L",
    "OBX|1|CWE|X^Y||F^Female^HL70001",
    "ZXX|free^text|1&2",
)


def message(*segments: str, codec: str = "utf-8", fallback: str = "utf-8") -> Message:
    return Message.parse("\r".join([*segments, ""]).encode(codec), fallback=fallback)


def nodes(tree: MessageTree) -> dict[str, Node]:
    found = [node for segment in tree.segments for node in segment.walk()]
    assert len({node.place for node in found}) == len(found)
    return {node.place: node for node in found}


def shown(tree: MessageTree, node: Node) -> str:
    """Return the text at the positions of a node, cut as a browser cuts it."""
    units = tree.text.encode("utf-16-le")[2 * node.start : 2 * node.end]
    return units.decode("utf-16-le")


def check(read: Message) -> MessageTree:
    """Check what is true of each node of each message."""
    tree = message_tree(read)
    for place, node in nodes(tree).items():
        data, text = read.raw[node.first_byte : node.last_byte], shown(tree, node)
        if b"\n" not in data and b"\r" not in data:
            assert data.decode(read.encoding) == text, place
        if "-" in place and not node.children and len(text) <= MAX_TEXT:
            assert node.text == read.value(place), place
        positions = [(child.start, child.end) for child in node.children]
        assert positions == sorted(positions)
        assert all(node.start <= start <= end <= node.end for start, end in positions)
    return tree


def test_each_part_has_name_type_and_meaning() -> None:
    """Names are those of the version; codes have meanings; the second repetition is named."""
    found = nodes(check(message(*ORDER)))
    rows = {place: (node.name, node.type, node.text, node.meaning) for place, node in found.items()}
    assert rows["PID"] == ("Patient identification", "", "", "")
    assert rows["PID-3"][:2] == ("Patient identifier list", "CX")
    assert rows["PID-3[1].4.2"] == ("Universal ID", "ST", "1.2.3", "")
    assert rows["PID-3[1].5"] == ("Identifier type code", "ID", "MR", "Medical record number")
    assert rows["PID-3[2].1"] == ("ID number", "ST", "756.1", "")
    assert rows["PID-5.1"] == ("Family name", "FN", "MÜLLER", "")
    assert rows["PID-8"] == ("Administrative sex", "IS", "M", "Male")
    assert rows["MSH-1"] == ("Field separator", "ST", "|", "")
    assert rows["MSH-2"] == ("Encoding characters", "ST", "^~\\&", "")
    assert rows["MSH-9.1"][3] == "Order"
    assert rows["ORC[2]-1"] == ("Order control", "ID", "NW", "New order")
    assert rows["OBR-4.2"][2] == "CT & chest"
    assert rows["OBR-13"][2] == "clinical \n text"
    assert rows["OBR-24"] == ("Diagnostic service section ID", "ID", "CT", "CAT scan")
    assert rows["OBR[2]-4.1"] == ("Identifier", "ST", "MR1", "")
    assert rows["ZXX-1.2"] == ("", "", "text", "")
    assert rows["ZXX-2.1.2"] == ("", "", "2", "")
    assert rows["OBR-5"] == ("Priority", "ID", "", "")  # an empty field has a place


@pytest.mark.parametrize(
    ("kind", "value", "part", "name"),
    [
        ("CWE", "F^Female^HL70001", "OBX-5.1", "Identifier"),
        ("XPN", "DOE^JANE", "OBX-5.2", "Given name"),
        ("NM", "12", "OBX-5", "Observation value"),
        ("", "12", "OBX-5", "Observation value"),
        ("NO TYPE", "1^2", "OBX-5.2", ""),
    ],
)
def test_the_value_of_an_observation_has_the_type_that_obx_2_names(
    kind: str, value: str, part: str, name: str
) -> None:
    found = nodes(check(message(ORDER[0], f"OBX|1|{kind}|X||{value}")))
    assert found[part].name == name
    assert found["OBX-5"].type == (kind if kind.isalnum() else "")


def test_the_table_of_a_coded_field_is_that_of_its_first_component() -> None:
    """In v2.7 the sex is a CWE: its code has a meaning, its text has none."""
    head = ORDER[0].replace("|2.5.1|", "|2.7|")
    found = nodes(check(message(head, "PID|1||A||B|||F^Female^HL70001")))
    assert found["PID-8.1"].meaning == "Female"
    assert found["PID-8.2"].meaning == ""


CHARACTER_SETS = [
    ("8859/1", "latin-1", "Jürgen"),
    ("8859/5", "iso8859-5", "Щукин"),
    ("UNICODE UTF-8", "utf-8", "Jürgen 𠮷 山田 é"),
    ("GB 18030-2000", "gb18030", "王𠮷伟|"),
    ("BIG-5", "big5", "許功蓋"),
    ("KS X 1001", "euc_kr", "김철수"),
    ("SHIFTJIS", "shift_jis", "ソ表山田"),
    ("ISO IR87", "iso2022_jp_ext", "山田太郎"),
]


@pytest.mark.parametrize(("msh18", "codec", "name"), CHARACTER_SETS)
def test_positions_in_character_sets(msh18: str, codec: str, name: str) -> None:
    """Positions are right where a character has several bytes that look like delimiters."""
    name = name.replace("|", "\\F\\")
    text = (HEADER.format(msh18), f"PID|1||{name}^x||{name}^{name}~{name}", f"NTE|1||{name}&{name}")
    read = message(*text, codec=codec)
    found = nodes(check(read))
    assert read.encoding == codec.replace("latin-1", "iso8859-1")
    assert found["PID-5[1].2"].text == name.replace("\\F\\", "|")
    part = found["PID-5[1].2"]
    assert read.raw[part.first_byte : part.last_byte].decode(codec) == name


def test_positions_among_stray_bytes() -> None:
    """UTF-8 with a byte of Latin-1 in it, as of a sender that joins two sources."""
    raw = "\r".join(ORDER[:2]).encode() + b"^J\xfcrg^\xc3\xa9t\xc3\xa9 \xc3\xa9"
    read = Message.parse(raw)
    assert read.charset_suspect
    found = nodes(message_tree(read))
    assert found["PID-8.2"].text == "Jürg"
    part = found["PID-8.2"]
    assert read.raw[part.first_byte : part.last_byte] == b"J\xfcrg"
    part = found["PID-8.3"]
    assert read.raw[part.first_byte : part.last_byte] == "été é".encode()


def test_positions_after_redundant_shifts() -> None:
    """ISO 2022 with shifts that an encoder would not write."""
    head = HEADER.format("ISO IR87").encode()
    raw = head + b"\rPID|1||\x1b(B\x1b$B;3\x1b(B\x1b$BED\x1b(B^A1^B\r"
    read = Message.parse(raw)
    found = nodes(message_tree(read))
    part = found["PID-3.2"]
    assert part.text == "A1"
    assert read.raw[part.first_byte : part.last_byte] == b"A1"


def test_positions_where_a_line_end_was_not_escaped() -> None:
    """Text over several lines is one field; what follows it has its position."""
    raw = "\r".join((ORDER[0], "NTE|1||first", "second | third^é", "OBX|1|ST|X||é^2", "")).encode()
    read = Message.parse(raw)
    tree = message_tree(read)
    found = nodes(tree)
    note = found["NTE-3"]
    assert note.text == "first\nsecond "
    assert read.raw[note.first_byte : note.last_byte] == b"first\rsecond "
    assert shown(tree, note) == "first\\X0A\\second "
    part = found["NTE-4.2"]
    assert read.raw[part.first_byte : part.last_byte] == "é".encode()
    part = found["OBX-5.2"]
    assert read.raw[part.first_byte : part.last_byte] == b"2"


@pytest.mark.parametrize("head", ["MSH#*", "MSH|^", "MSH|^~", "MSH|^~\\&#", "MSH|^~\\\\&"])
def test_other_delimiters(head: str) -> None:
    """Delimiters are those that the message declares."""
    mark = head[3]
    raw = f"{head}{mark}A{mark * 6}ORM^O01\rPID{mark}1{mark}{mark}a^b&c~d*e\\T\\"
    check(Message.parse(raw.encode()))


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_messages_of_every_shape(file: File) -> None:
    """Each leaf has the value at its place, and the bytes at its positions."""
    try:
        read = Message.parse(file.read_bytes())
    except MalformedMessage:
        return
    tree = check(read)
    assert not tree.more
    assert [segment.place.partition("[")[0] for segment in tree.segments] == list(read.names)


TEXT = st.text("AÄ𠮷山|^~\\&\n T.br19", max_size=40)


@given(st.lists(st.tuples(st.sampled_from(["PID", "OBX", "NTE", "ZZZ"]), TEXT), max_size=6))
def test_any_message(segments: list[tuple[str, str]]) -> None:
    """The same for invented messages."""
    lines = [HEADER.format("UNICODE UTF-8"), *(f"{name}|{text}" for name, text in segments)]
    try:
        read = message(*lines)
    except MalformedMessage:
        return
    tree = message_tree(read)
    for place, node in nodes(tree).items():
        data = read.raw[node.first_byte : node.last_byte].decode()
        assert data.split("\n") == shown(tree, node).replace("\\X0A\\", "\n").split("\n"), place


def test_a_large_message_is_cut_at_a_segment() -> None:
    """Segments beyond the limits are left out of the tree, not of the text."""
    tree = message_tree(message(ORDER[0], *["NTE|1||x"] * (MAX_SEGMENTS + 1)))
    assert (len(tree.segments), tree.more) == (MAX_SEGMENTS, True)
    assert tree.text.count("NTE") == MAX_SEGMENTS + 1
    tree = message_tree(message(*ORDER[:2], "ZXX|" + "a^" * MAX_PLACES, "ORC|NW"))
    assert ([segment.place for segment in tree.segments], tree.more) == (["MSH", "PID"], True)


def test_a_long_text_is_cut() -> None:
    """A document in OBX-5 is not repeated in each node."""
    tree = message_tree(message(ORDER[0], "OBX|1|ED|X||^application^pdf^Base64^" + "A" * 10_000))
    found = nodes(tree)
    assert found["OBX-5.5"].text == "A" * MAX_TEXT + "…"
    assert len(shown(tree, found["OBX-5.5"])) == 10_000
    assert len(found["OBX-5"].text) == MAX_TEXT + 1
