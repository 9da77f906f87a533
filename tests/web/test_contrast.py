"""The colours of the web apps, calculated from the file of design tokens."""

import re
from pathlib import Path

import pytest

TOKENS = Path(__file__).resolve().parents[2] / "web" / "src" / "shared" / "theme" / "tokens.css"
GROUNDS = ("canvas", "surface", "raised", "overlay", "hover", "selected")
TEXTS = (
    *("text", "text-2", "text-3", "accent", "info", "ok", "amber", "red", "neutral"),
    *("violet", "teal"),
)
STATES = ("ok", "amber", "red", "info", "neutral")
TEXT, CONTROL = 4.5, 3.0
"""The least contrast of text, and of borders and focus rings (WCAG 2.2, 1.4.3 and 1.4.11)."""


def themes() -> list[dict[str, str]]:
    """Return the colours of each block that sets a colour scheme: dark, light, light by system."""
    blocks = re.findall(r"\{\s*color-scheme: \w+;([^}]*)\}", TOKENS.read_text("utf-8"))
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in blocks]


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_both_light_themes_are_the_same() -> None:
    """The theme that a person chose and the one of the system differ in nothing."""
    _, chosen, system = themes()

    assert chosen == system


@pytest.mark.parametrize("theme", [0, 1], ids=["dark", "light"])
def test_every_text_can_be_read_on_every_ground(theme: int) -> None:
    colors = themes()[theme]
    pairs = [(text, ground, TEXT) for text in TEXTS for ground in GROUNDS]
    pairs += [(state, f"{state}-ground", TEXT) for state in STATES]
    pairs += [("on-fill", fill, TEXT) for fill in ("fill", "fill-hover", "red-fill")]
    pairs += [(border, ground, CONTROL) for border in ("edge", "focus") for ground in GROUNDS]

    weak = [
        (one, other) for one, other, least in pairs if contrast(colors[one], colors[other]) < least
    ]
    assert weak == []
