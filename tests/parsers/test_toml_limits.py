"""The scan refuses hostile TOML from its text, with a place, and accepts ordinary TOML."""

from pathlib import Path

import pytest

from config.settings import parse
from config.toml_text import SettingsError, parse_toml
from parsers.limits import TOML, DocumentRefused
from parsers.readers import require_toml_limits

HOSTILE = {
    "dotted key": ".".join("a" * 50_000) + " = 1",
    "dotted table": "[" + ".".join("a" * 50_000) + "]",
    "dotted array": "[[" + " . ".join('"a"' for _ in range(50_000)) + "]]",
    "dotted inline": "a = {" + ".".join("a" * 50_000) + " = 1}",
    "lists": "a = " + "[" * 50_000,
    "lists over lines": "a = " + "[\n" * 50_000,
    "inline tables": "a = " + "{a = " * 50_000,
    "keys": "\n".join(f"a{number} = 1" for number in range(TOML.count + 1)),
    "tables": "\n".join(f"[a{item}]" for item in range(TOML.count + 1)),
    "values": f"a = [{'1,' * (TOML.count + 1)}]",
    "digits": f"a = {'9' * 5000}",
    "hexadecimal": f"a = 0x{'f' * 5000}",
    "fraction": f"a = 1.{'9' * 5000}",
    "size": f'a = "{"x" * TOML.size}"',
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_are_refused_with_a_reason(text: str) -> None:
    """Settings and interface packages use the same scan."""
    with pytest.raises(DocumentRefused):
        require_toml_limits(text)
    with pytest.raises(SettingsError) as refused:
        parse_toml(text, Path("interface.toml"))
    (mistake,) = refused.value.mistakes
    assert mistake.place.startswith("interface.toml")


@pytest.mark.parametrize(
    "text",
    [
        f'a = "{"[" * 100}{"." * 100}"',
        f"a = '''{'[' * 100}\n\n{'.' * 100}'' \"'''\nb = 1",
        'a = """' + "[" * 100 + '\\"""' + "." * 100 + '""""\nb = 1',
        f"# {'[' * 100}{'.' * 100}\na = 1",
        'a = ["' + "x.y" * 100 + '", "\\"' + "[" * 100 + '"]',
        "a = 1979-05-27T07:32:00.999999Z\nb.c.d = -1.5e-7",
    ],
)
def test_texts_and_comments_do_not_count(text: str) -> None:
    """Brackets and points in patterns and comments do not count."""
    require_toml_limits(text)
    assert parse_toml(text, Path("bridge.toml"))["a"]


@pytest.mark.parametrize(
    "text",
    [
        "[[listener]]\n" * 9000,
        "[[listener]]\nname = 'a'\nbind = '1'\n" * 4000,
        "\n".join(f"a{item} = 1" for item in range(TOML.count - 1)),
        'a = ["\\u0000"' + ',"\\u0000"' * 15_000 + "]",
    ],
    ids=["tables", "names", "keys", "characters"],
)
def test_settings_that_are_wrong_everywhere_name_some_mistakes(text: str) -> None:
    """Finding a place takes as long as reading the file, so few mistakes are reported."""
    with pytest.raises(SettingsError) as refused:
        parse(text, Path("/home"), Path("bridge.toml"))
    assert 100 <= len(refused.value.mistakes) <= 201
