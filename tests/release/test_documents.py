"""The links, files, functions, settings and commands in the documents exist."""

import ast
import contextlib
import re
import shlex
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from bridge.cli.application import application
from config.settings import parse
from tests.benchmarks.plot import PLOT, drawn

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
DECISIONS = (DOCS / "decisions", DOCS / "adr")
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(path for path in sorted(DOCS.rglob("*.md")) if path.parent not in DECISIONS),
]
HISTORY = ROOT / "CHANGELOG.md"
"""Old entries name files that may not exist any more."""

FOLDERS = "bridge|tests|docs|deploy|config|mappings|mllp|parsers|web|sample_messages"
NAMED = re.compile(rf"`((?:{FOLDERS})/[\w./-]+)`")
FUNCTION = re.compile(r"`([A-Za-z_]\w*)(?:\.(\w+))?`\s+(?:in |\()`([\w/]+\.py)`")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")

COMMANDS: Any = get_command(application)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def prose(page: Path) -> str:
    """Return a page without its code blocks."""
    return re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    flags = re.MULTILINE | re.DOTALL
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", page.read_text("utf-8"), flags)
    return [re.sub(rf"^{indent}", "", text, flags=re.MULTILINE) for indent, text in found]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)
    return set(plain)


DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@each_page
def test_links_have_targets(page: Path) -> None:
    """Each link names an existing file and heading."""
    for name, anchor in LINK.findall(prose(page)):
        target = (page.parent / name).resolve() if name else page
        if target.parent == DOCS / "adr" and not target.parent.exists():
            continue  # docs/adr may not exist
        assert target.exists(), name
        assert not anchor or anchor in anchors(target), f"{name}#{anchor}"


@each_page
def test_named_files_exist(page: Path) -> None:
    """Each path in a sentence or table exists."""
    if page != HISTORY:
        missing = [name for name in NAMED.findall(prose(page)) if not (ROOT / name).exists()]
        assert [name for name in missing if "NNNN" not in name] == []


@each_page
def test_named_functions_exist(page: Path) -> None:
    """A function, class or table that is named with a file is defined in that file."""
    for first, second, file in FUNCTION.findall(prose(page)):
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        top: dict[str, ast.stmt] = {
            node.name: node for node in tree.body if isinstance(node, DEFINITIONS)
        }
        for node in tree.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                top[node.target.id] = node
        assert first in top, f"{first} in {file}"
        inner = {getattr(node, "name", "") for node in getattr(top[first], "body", [])}
        assert not second or second in inner, f"{first}.{second} in {file}"


def test_the_architecture_names_both_entry_points() -> None:
    """The table of questions names where a frame becomes an order, and a release an ORU."""
    page = (DOCS / "explanation" / "architecture.md").read_text("utf-8")
    table = page.partition("## Where to look in the source\n")[2].partition("\n## ")[0]
    found = FUNCTION.findall(table)
    assert {file.split("/")[1] for _, _, file in found} >= {"intake", "delivery"}


def test_the_readme_fits_on_one_screen() -> None:
    """The README is short, has two pictures, and says what is not claimed."""
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 80
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+\.png)\)", text)
    assert len(pictures) == 2
    assert sum((ROOT / picture).stat().st_size for picture in pictures) < 400_000
    assert "cleared as a medical device" in text


@each_page
def test_settings_are_valid(page: Path, tmp_path: Path) -> None:
    for text in blocks(page, "toml"):
        parse(text, tmp_path, tmp_path / "bridge.toml")


def calls(page: Path) -> Iterator[list[str]]:
    """Return the arguments of each call of `bridge` in shell blocks."""
    for line in "\n".join(blocks(page, "sh")).replace("\\\n", " ").splitlines():
        words = shlex.split(line.replace("$(", " ").rstrip(")"), comments=True)
        for place, word in enumerate(words):
            before = words[place - 1] if place else ""
            begins = not place or "=" in before or before in ("--", "report-bridge", "exec")
            if word.rpartition("/")[2] == "bridge" and begins:
                end = words.index(">", place) if ">" in words[place:] else len(words)
                yield words[place + 1 : end]


@each_page
def test_commands_are_valid(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each `bridge …` in a shell block has valid options and arguments."""
    monkeypatch.setenv("BRIDGE_HOME", "HOME")
    monkeypatch.chdir(tmp_path)
    for arguments in calls(page):
        for name in (argument for argument in arguments if argument.endswith((".hl7", ".xml"))):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        command = COMMANDS
        rest = list(arguments)
        while getattr(command, "commands", None) and rest and not rest[0].startswith("-"):
            assert rest[0] in command.commands, arguments
            command = command.commands[rest.pop(0)]
        if rest != ["--version"]:
            command.make_context("bridge", rest)


def test_the_pattern_finds_commands() -> None:
    assert sum(len(list(calls(page))) for page in PAGES) > 60


def test_the_index_names_every_page() -> None:
    """Each page can be reached from `docs/index.md`."""
    index = DOCS / "index.md"
    named = {(DOCS / name).resolve() for name, _ in LINK.findall(index.read_text("utf-8"))}
    assert set(PAGES) - {*named, index} == set()


def test_the_glossary_is_in_order() -> None:
    """The terms of the glossary are unique and sorted."""
    text = (DOCS / "reference" / "glossary.md").read_text("utf-8")
    terms = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", text, re.MULTILINE)[1:]
    assert terms == sorted(set(terms), key=str.lower)


def test_the_plot_shows_the_table() -> None:
    """The plot is the output of `python -m tests.benchmarks.plot` for the table."""
    assert PLOT.read_text("utf-8") == drawn()


FOLDER = Path(__file__).resolve().parents[2] / "docs" / "adr"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))
PARTS = ("Status:", "Context.", "Decision.", "Consequences.")
LONGEST = 400
"""Words of a record: half a page to a page."""


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_has_title_status_context_decision_and_consequences(path: Path) -> None:
    """A record has these parts in this order, and is short."""
    text = path.read_text("utf-8")
    places = [text.find(f"\n**{part}**") for part in PARTS]
    assert text.startswith("# ")
    assert -1 not in places
    assert places == sorted(places)
    assert len(text.split()) <= LONGEST


def test_the_index_names_each_record_once_by_number_and_title() -> None:
    listed = re.findall(
        r"^\* \[(\d{4})\]\(([^)]+)\) (.+)$", (FOLDER / "index.md").read_text(), re.MULTILINE
    )
    titles = [path.read_text("utf-8").splitlines()[0].removeprefix("# ") for path in RECORDS]
    assert [name for _, name, _ in listed] == [path.name for path in RECORDS]
    assert [number for number, _, _ in listed] == [path.name[:4] for path in RECORDS]
    assert [title for _, _, title in listed] == titles


def test_a_number_belongs_to_one_record() -> None:
    numbers = [path.name[:4] for path in RECORDS]
    assert len(numbers) == len(set(numbers))


PAGE = ROOT / "docs" / "explanation" / "security.md"


def test_each_threat_has_a_protection_and_a_test() -> None:
    """Every row of the table has four cells, and every test file that it names is there."""
    rows = re.findall(r"^\| [STRIDE] \| .*$", PAGE.read_text("utf-8"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(tests/[^`]+)`", row)}

    assert len(rows) > 20
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 5 and "`tests/" in row for row in rows)
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_tables_and_columns_of_the_data_model_exist(tmp_path: Path) -> None:
    home = tmp_path / "home"
    made = CliRunner().invoke(application, ["init", str(home)])
    migrated = CliRunner().invoke(application, ["migrate", "--home", str(home)])
    assert (made.exit_code, migrated.exit_code) == (0, 0)
    columns: dict[str, set[str]] = {}
    for file in home.glob("*.db"):
        with contextlib.closing(sqlite3.connect(file)) as database:
            for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
                rows = database.execute("SELECT name FROM pragma_table_info(?)", (table,))
                columns[table] = {name for (name,) in rows}
    page = prose(DOCS / "explanation" / "data-model.md")
    named = re.findall(r"`([a-z]+(?:_[a-z]+)*)(?:\.([a-z_0-9]+))?`", page)
    assert [name for name, _ in named if name not in columns] == []
    assert [pair for pair in named if pair[1] and pair[1] not in columns[pair[0]]] == []
