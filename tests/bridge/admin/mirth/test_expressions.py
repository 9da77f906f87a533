"""Places and constants of JavaScript are recognized; nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.admin.mirth.expressions import Constant, Place, Variable, parse
from mappings.authoring.yaml_writing import Tree
from mappings.language.accessors import compile_path
from mappings.language.diagnostics import Diagnostics, YamlNode


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("msg['PID']['PID.3']['PID.3.1'].toString()", "PID-3.1"),
        ('msg["PID"]["PID.3"]["PID.3.1"].text()', "PID-3.1"),
        (" tmp['OBR']['OBR.4'] ; ", "OBR-4"),
        ("msg['PID'][0]['PID.3'][1]['PID.3.4'][0]['PID.3.4.2'].toString().trim()", "PID-3[2].4.2"),
        ("msg.OBX[2]['OBX.5']['OBX.5.1']", "OBX[3]-5.1"),
        ("msg['PID']['PID.8'].toString().toUpperCase()", {"from": "PID-8", "as": "upper"}),
        (
            "msg['OBR']['OBR.7']['OBR.7.1'].toString().substring(0, 8)",
            {"from": "OBR-7.1", "extract": "^(.{0,8})"},
        ),
        (
            "msg['OBR']['OBR.3']['OBR.3.1'].toString().substring(4)",
            {"from": "OBR-3.1", "extract": "^.{4}(.*)"},
        ),
        (
            "DateUtil.convertDate('yyyyMMddHHmmss', 'yyyyMMdd', msg['OBR']['OBR.7'].toString())",
            {"from": "OBR-7", "as": "date"},
        ),
    ],
)
def test_places(text: str, rule: Tree) -> None:
    found = parse(text)
    assert isinstance(found, Place)
    assert found.rule == rule


@pytest.mark.parametrize(
    ("text", "value"),
    [("'RAD'", "RAD"), ('"a\\"b"', 'a"b'), ("'it\\'s'", "it's"), ("12", "12"), ("''", "")],
)
def test_constants(text: str, value: str) -> None:
    assert parse(text) == Constant(value)


@pytest.mark.parametrize("text", ["$('mrn')", 'channelMap.get("mrn")', "sourceMap.get( 'mrn' )"])
def test_variables(text: str) -> None:
    assert parse(text) == Variable("mrn")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "msg",
        "message",
        "msg['PID']['PID.3'] + 'x'",
        "msg['PID']['OBR.3']",
        "msg['PID']['PID.3']['PID.4.1']",
        "msg['PID']['PID.0']",
        "msg['ORM_O01.ORDER']['ORC']",
        "msg['OBX'][i]['OBX.5']",
        "msg['PID'].length()",
        "msg['OBR']['OBR.7'].toString().substring(8, 2)",
        "msg['OBR']['OBR.7'].toString().substring(0, 9999)",
        "msg['PID']['PID.3'].toString(); java.lang.Runtime.getRuntime()",
        "'a' + 'b'",
        "'a\nb'",
        "$(mrn)",
        "eval('1')",
        "x" * 5000,
    ],
)
def test_other_expressions_are_javascript(text: str) -> None:
    assert parse(text) is None


@given(st.text(alphabet="msgtp[]'\"PIDOBX.0123456789()toString;$ \\", max_size=80))
def test_any_place_is_a_path_of_the_language(text: str) -> None:
    """The parser never fails, and each place that it finds can be compiled."""
    found = parse(f"msg['PID']{text}")
    if isinstance(found, Place) and found.field:
        diagnostics = Diagnostics()
        compile_path(found.path, YamlNode(None, "", 1, 1), diagnostics)
        assert not diagnostics.failed, found.path
