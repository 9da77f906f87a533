"""
The generated parts of the reference pages match models, commands and routes.

`REPORT_BRIDGE_WRITE_SNAPSHOTS=1 pytest tests/release/test_reference_pages.py` regenerates them.
"""

import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import pytest
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydicom.uid import UID
from typer.main import get_command

from bridge.cli.application import application
from bridge.dicom.commitment import CommitmentService
from bridge.dicom.encoding import SYNTAXES
from bridge.dicom.performed import PerformedSteps
from bridge.dicom.server import VERIFICATION
from bridge.dicom.storage import StorageService
from bridge.dicom.worklist import WorklistService
from bridge.engine.http.engine_application import ROUTERS
from config.example import _ARRAYS, _TABLES, example_value, is_array

WIDTH = 96
EMPTY = ('""', "{}", "[]")


def settings() -> str:
    parts = [_section(f"[{name}]", name, model) for name, model in _TABLES]
    parts += [_section(f"[[{name}]]", name, model) for name, model, _ in _ARRAYS]
    return "\n".join(parts)


def _section(title: str, name: str, model: type[BaseModel]) -> str:
    lines = [f"## {title}", "", *_about(model)]
    lines += ["| setting | default | meaning |", "|---|---|---|"]
    inner: list[str] = []
    for key, field in model.model_fields.items():
        if field.deprecated or is_array(name, key):
            continue
        optional = field.get_default(call_default_factory=True) in (None, {}, [], "")
        value = _cell(example_value(name, field.alias or key, field))
        default = f"(`{value}`)" if optional and value not in EMPTY else f"`{value}`"
        if field.is_required():
            default = f"required, such as `{value}`"
        lines.append(f"| `{field.alias or key}` | {default} | {_cell(field.description or '')} |")
        if optional and (nested := _nested(field.annotation)):
            inner += ["", f"`{field.alias or key}` is a table with these members:", ""]
            inner += _members(nested)
    return "\n".join([*lines, *inner, ""])


def _about(model: type[BaseModel]) -> list[str]:
    text = inspect.getdoc(model) or ""
    return [" ".join(text.split()), ""] if text else []


def _nested(annotation: Any) -> type[BaseModel] | None:
    kinds = get_args(annotation) if get_origin(annotation) in (UnionType, Union) else (annotation,)
    found = [kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, BaseModel)]
    return found[0] if found else None


def _members(model: type[BaseModel]) -> Iterator[str]:
    yield from ("| member | default | meaning |", "|---|---|---|")
    for key, field in model.model_fields.items():
        value = f"`{_plain(field.default)}`" if field.default is not None else ""
        value = "required" if field.is_required() else value
        yield f"| `{field.alias or key}` | {value} | {_cell(field.description or '')} |"


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).lower()


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def commands() -> str:
    root: Any = get_command(application)
    context = root.context_class(root, info_name="bridge", terminal_width=WIDTH)
    parts = [_help(root, context, 2)]
    for name, command in root.commands.items():
        if command.hidden:
            continue
        inner = root.context_class(command, info_name=name, parent=context, terminal_width=WIDTH)
        parts += _tree(command, inner, 2)
    return "\n".join(parts)


def _tree(command: Any, context: Any, depth: int) -> Iterator[str]:
    subcommands = getattr(command, "commands", {})
    if not subcommands:
        yield _help(command, context, depth)
        return
    yield f"{'#' * depth} {context.command_path}\n\n{command.help or ''}\n"
    for name, item in subcommands.items():
        kind = type(context)
        inner = kind(item, info_name=name, parent=context, terminal_width=WIDTH)
        if not item.hidden:
            yield from _tree(item, inner, depth + 1)


def _help(command: Any, context: Any, depth: int) -> str:
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    return f"{'#' * depth} {context.command_path}\n\n```\n{text.strip()}\n```\n"


def routes() -> str:
    rows = ["| method | path | what it does |", "|---|---|---|"]
    for router in ROUTERS:
        for route in router.routes:
            if isinstance(route, APIRoute) and route.include_in_schema and _is_public(route):
                about = " ".join(inspect.getdoc(route.endpoint).split("\n\n")[0].split())  # type: ignore[union-attr]  # each has one, as ruff demands
                methods = ", ".join(sorted(route.methods or ()))
                rows.append(f"| {methods} | `{route.path}` | {_cell(about)} |")
    return "\n".join(rows) + "\n"


def sop_classes() -> str:
    services = [
        ("each peer", "SCP", VERIFICATION),
        ("worklist", "SCP", WorklistService.contexts),
        ("performed", "SCP", PerformedSteps.contexts),
        ("store", "SCP", StorageService.contexts),
        ("commitment", "SCU", CommitmentService.contexts),
    ]
    rows = ["| `may` | role | SOP class | UID |", "|---|---|---|---|"]
    for service, role, contexts in services:
        for context in contexts:
            assert context.transfer_syntax == [*SYNTAXES]
            uid = UID(context.abstract_syntax or "")
            rows.append(f"| {service} | {role} | {uid.name} | {uid} |")
    syntaxes = "; ".join(f"{syntax.name} ({syntax})" for syntax in SYNTAXES)
    return "\n".join([*rows, "", f"Transfer syntaxes of all: {syntaxes}.", ""])


def _is_public(route: APIRoute) -> bool:
    return not route.path.startswith("/reporting/")


REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
WRITE = "REPORT_BRIDGE_WRITE_SNAPSHOTS"
FIRST, LAST = "<!-- generated -->\n", "<!-- end -->\n"


@pytest.mark.parametrize(
    ("name", "generate"),
    [
        ("settings.md", settings),
        ("cli.md", commands),
        ("http-api.md", routes),
        ("dicom-conformance.md", sop_classes),
    ],
)
def test_the_page_is_up_to_date(name: str, generate: Callable[[], str]) -> None:
    """Settings, commands, routes and SOP classes of the pages are those of the code."""
    page = REFERENCE / name
    before, first, rest = page.read_text("utf-8").partition(FIRST)
    _, last, after = rest.partition(LAST)
    assert first
    assert last
    text = f"{before}{FIRST}{generate()}{LAST}{after}"
    if os.environ.get(WRITE):
        page.write_text(text, "utf-8")
    assert page.read_text("utf-8") == text, f"stale: run this test with {WRITE}=1"


def test_every_setting_has_a_meaning() -> None:
    """No setting lacks a description."""
    assert [line for line in settings().splitlines() if line.endswith("|  |")] == []
