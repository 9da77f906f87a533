"""The content of a message for its page."""

from bridge.admin.messages.message_tree import content_of

ORDER = "MSH|^~\\&|RIS|NORTH|||20260102||ORM^O01|A1|P|2.5.1\rPID|1||A1~B2^^^𠮷||DOE^JOHN|||F\r"


def test_each_node_has_its_positions_in_the_text() -> None:
    """A browser cuts the text of a component out of the whole text."""
    content = content_of(ORDER.encode())
    units = content["raw"].encode("utf-16-le")
    pid = content["tree"][1]
    assert pid["name"] == "Patient identification"
    identifier, sex = pid["children"][2], pid["children"][7]
    second = identifier["children"][1]["children"][3]
    assert (second["place"], second["text"]) == ("PID-3[2].4", "𠮷")
    assert sex["meaning"] == "Female"
    for node in (second, sex):
        assert units[2 * node["start"] : 2 * node["end"]].decode("utf-16-le") == node["text"]
    assert content["charset"] == "utf-8"
    assert content["more"] is False


def test_something_that_is_not_hl7_has_a_text_only() -> None:
    assert content_of(b"GET / HTTP/1.1\r\n") == {
        "raw": "GET / HTTP/1.1",
        "charset": "",
        "tree": [],
        "more": False,
        "is_dicom": False,
        "ack": None,
    }


REPLY = (
    "MSH|^~\\&|B||RIS||20260102||ACK|R1|P|2.5.1\rMSA|AE|A1\r"
    "ERR||PID^1^3^2^4|101^Required field missing^HL70357|E|||no authority\r"
    "ERR||PID^1^30|101^Required field missing^HL70357|E\r"
    "ERR||OBR^1^4|103^Table value not found^HL70357|E\r"
)


def test_the_errors_of_a_reply_have_places_in_the_tree() -> None:
    """An error names a node, or the smallest one around a part that the message lacks."""
    ack = content_of(ORDER.encode(), reply=REPLY.encode())["ack"]
    assert ack["code"] == "AE"
    assert ack["raw"].endswith("|E")
    assert [(error["code"], error["places"]) for error in ack["errors"]] == [
        ("101", ["PID-3[2].4"]),
        ("101", ["PID"]),
        ("103", []),
    ]
    assert ack["errors"][0]["text"] == "no authority"
    assert content_of(ORDER.encode(), reply=b"")["ack"] is None
    assert content_of(b"GET /", reply=REPLY.encode())["ack"]["errors"][0]["places"] == []
