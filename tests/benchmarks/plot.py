"""
The plot of `docs/explanation/performance.md`: bars of the intake figures in its table.

`python -m tests.benchmarks.plot` regenerates it.
"""

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "explanation"
PAGE, PLOT = FOLDER / "performance.md", FOLDER / "performance.svg"
_ROW = re.compile(r"^\| intake alone, (.+), messages/s \| [^|]+ \| ([\d,]+) \|", re.MULTILINE)
_LABELS, _BARS, _HEIGHT = 290, 360, 34
_LOOK = 'role="img" font-family="sans-serif" font-size="13"'


def figures() -> dict[str, int]:
    rows = _ROW.findall(PAGE.read_text("utf-8"))
    return {name: int(value.replace(",", "")) for name, value in rows}


def drawn() -> str:
    found = figures()
    most = max(found.values())
    width, height = _LABELS + _BARS + 80, _HEIGHT * len(found) + 50
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" {_LOOK}>',
        "<title>Messages a second, intake alone, SQLite</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        '<text x="10" y="24" font-weight="bold">Messages a second, intake alone, SQLite</text>',
    ]
    for place, (name, value) in enumerate(found.items()):
        top, length = 40 + place * _HEIGHT, round(_BARS * value / most)
        lines += [
            f'<text x="{_LABELS - 10}" y="{top + 17}" text-anchor="end">{name}</text>',
            f'<rect x="{_LABELS}" y="{top}" width="{length}" height="24" fill="#2a6f97"/>',
            f'<text x="{_LABELS + length + 8}" y="{top + 17}">{value:,}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    PLOT.write_text(drawn(), "utf-8")
