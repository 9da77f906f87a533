"""
The reference pages that are generated: settings, commands, and the routes of the HTTP interface.

`REPORT_BRIDGE_WRITE_SNAPSHOTS=1 pytest tests/release/test_reference_pages.py` writes them anew.
"""

import inspect
from collections.abc import Iterator
from types import UnionType
from typing import Any, Union, get_args, get_origin

from fastapi.routing import APIRoute
from pydantic import BaseModel
from typer.main import get_command

from bridge.cli.application import application
from bridge.engine.http.application import ROUTERS
from config.example import _MANY, _SINGLE, shown

WIDTH = 96
SETTINGS_HEAD = """\
# Settings

`HOME/bridge.toml` holds the settings of an installation. `bridge init HOME` writes the file with every setting and its
default. `bridge check --home HOME` reports every mistake with its line. `bridge.toml` is read when the service starts.

* An environment variable overrides the file: `BRIDGE_HTTP__BIND` is `bind` of `[http]`.
* Paths are relative to the data directory.
* Durations are written `"10s"`, `"5m"`, `"12h"`, `"90d"`; sizes `"64KiB"`, `"16MiB"`.
* An unknown setting is an error. A setting that no longer has an effect is accepted, and `bridge check` reports it.
* `[[listener]]` and `[[destination]]` may occur many times. The console's page *Connections* sets the same values; a
  value that is set there takes precedence over the file for the listener or destination of that name.

This page is generated from the models in `config/`. Defaults in parentheses are examples: the setting is empty unless
you set it.
"""
CLI_HEAD = """\
# Commands

Every command takes the data directory as `--home HOME`, or from the environment variable `BRIDGE_HOME`. Commands
work beside a running service. Run them as the account of the service.

Exit status: 0 success, 1 the command found a fault or was refused, 2 wrong usage.
Times are ISO 8601, in UTC where they have no offset. `--json` prints JSON for scripts; its members are only added, never
renamed.

This page is generated from the commands' own help.
"""


def settings() -> str:
    """Return the page of all settings."""
    parts = [SETTINGS_HEAD]
    parts += [_section(f"[{name}]", name, model) for name, model in _SINGLE]
    parts += [_section(f"[[{name}]]", name, model) for name, model, _ in _MANY]
    return "\n".join(parts)


def _section(title: str, name: str, model: type[BaseModel]) -> str:
    lines = [f"## {title}", "", *_about(model)]
    lines += ["| setting | default | meaning |", "|---|---|---|"]
    inner: list[str] = []
    for key, field in model.model_fields.items():
        if field.deprecated:
            continue
        optional = field.get_default(call_default_factory=True) in (None, {}, "")
        value = _cell(shown(name, field.alias or key, field))
        default = f"`{value}`" if not optional or value in ('""', "{}") else f"(`{value}`)"
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
    found = [each for each in kinds if inspect.isclass(each) and issubclass(each, BaseModel)]
    return found[0] if found else None


def _members(model: type[BaseModel]) -> Iterator[str]:
    yield from ("| member | default | meaning |", "|---|---|---|")
    for key, field in model.model_fields.items():
        value = "required" if field.is_required() else f"`{_plain(field.default)}`"
        yield f"| `{field.alias or key}` | {value} | {_cell(field.description or '')} |"


def _plain(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else f'"{value}"'


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def commands() -> str:
    """Return the page of all commands."""
    root: Any = get_command(application)
    context = root.context_class(root, info_name="bridge", terminal_width=WIDTH)
    parts = [CLI_HEAD, _help(root, context, 2)]
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
    for name, each in subcommands.items():
        kind = type(context)
        inner = kind(each, info_name=name, parent=context, terminal_width=WIDTH)
        if not each.hidden:
            yield from _tree(each, inner, depth + 1)


def _help(command: Any, context: Any, depth: int) -> str:
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    return f"{'#' * depth} {context.command_path}\n\n```\n{text.strip()}\n```\n"


def routes() -> str:
    """Return the table of the routes for integrators, by chapter."""
    rows = ["| method | path | what it does |", "|---|---|---|"]
    for router in ROUTERS:
        for route in router.routes:
            if isinstance(route, APIRoute) and route.include_in_schema and _is_public(route):
                about = " ".join(inspect.getdoc(route.endpoint).split("\n\n")[0].split())  # type: ignore[union-attr]  # each has one, as ruff demands
                methods = ", ".join(sorted(route.methods))
                rows.append(f"| {methods} | `{route.path}` | {_cell(about)} |")
    return "\n".join(rows) + "\n"


def _is_public(route: APIRoute) -> bool:
    return not route.path.startswith("/reporting/")
