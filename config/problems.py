"""
Texts for mistakes in settings: what is expected, with an example in TOML. Pure.

Pydantic finds the mistakes, but its messages are for programmers.
"""

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from config.example import example_value, is_array
from config.quantities import parse_duration, parse_size
from config.toml_text import MAX_MISTAKES, Location

_UNITS: Final[Mapping[Callable[[object], float], str]] = {
    parse_duration: " seconds",
    parse_size: " bytes",
}
_KINDS: Final = {
    "missing": "is missing",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "string_too_long": "is too long",
    "string": "write text in quotes",
    "path": "write a path in quotes",
    "int": "write a whole number",
    "float": "write a number",
    "finite": "write a number",
    "bool": "write true or false",
    "list": "write a list",
    "dict": "write a table",
    "model": "write a table",
}
"""Texts by pydantic's error type, or by its first word: `string` for `string_type`."""
_BOUNDS: Final = {
    "greater_than": ("gt", "write more than"),
    "greater_than_equal": ("ge", "write at least"),
    "less_than": ("lt", "write less than"),
    "less_than_equal": ("le", "write at most"),
}
_PATTERNS: Final = {
    "name": "write letters, digits, points, dashes and underscores only",
    "replies": 'write "delivered", "retry", "park", "skip", "pause" or "retry N then park"',
    "metadata": 'write "OBX", "NTE", "none", a Z segment such as "ZMD-3", or a field as "OBR-21"',
}
_REPLY: Final = 'write AA, AE, "AE 206", mismatch, garbage, silence, "silence timeout", "http 5xx"'
_OTHERWISE: Final = "is not possible"


class SettingProblem(NamedTuple):
    """The location of a wrong setting, and the text for it."""

    location: Location
    message: str


class _Setting(NamedTuple):
    """A location in the models: its section, its key, its field, and the keys inside."""

    section: str
    key: str
    field: FieldInfo | None
    keys: list[str]
    more: Location  # the part of the location inside the setting's value


def describe_problems(
    error: ValidationError, model: type[BaseModel], section: str = ""
) -> list[SettingProblem]:
    """
    Return the texts for the errors that pydantic found.

    `section` is the name of `model` in the file, empty if `model` is the whole file.
    """
    found = error.errors(include_url=False)
    problems = [
        problem for one in found[:MAX_MISTAKES] for problem in _problems(one, model, section)
    ]
    if len(found) > MAX_MISTAKES:
        problems.append(SettingProblem((), f"and {len(found) - MAX_MISTAKES} more mistakes"))
    return problems


def _problems(found: Any, model: type[BaseModel], section: str) -> Iterator[SettingProblem]:
    context = found.get("ctx", {})
    parts = context.get("loc") or found["loc"]
    location = tuple(part for part in parts if isinstance(part, str | int) and part != "[key]")
    setting = find_setting(model, section, location)
    if isinstance(context.get("error"), ValueError):  # raised by our models
        names, colon, rest = str(context["error"]).partition(": ")
        keys = names.split(", ")
        if colon and set(keys) <= set(setting.keys):
            yield from (SettingProblem((*location, key), rest) for key in keys)
            return
        yield SettingProblem(location, str(context["error"]))
    elif "loc" in context:
        yield SettingProblem(location, found["msg"])
    else:
        yield SettingProblem(location, _problem_text(found["type"], context, setting, found["loc"]))


def _problem_text(
    kind: str, context: Mapping[str, Any], setting: _Setting, location: Location
) -> str:
    if kind == "extra_forbidden":
        near = get_close_matches(setting.key, setting.keys, n=1)
        return f"unknown key; is {near[0]} meant?" if near else "unknown key"
    if bound := _BOUNDS.get(kind):
        return f"{bound[1]} {context[bound[0]]:.15g}{_unit(setting.field)}"
    if kind in {"enum", "literal_error"}:
        return f"write {context['expected']}".replace("'", '"')
    is_table = not setting.section or is_array(setting.section, setting.key)
    if is_table and setting.field is not None:
        heading = f"{setting.section}.{setting.key}".removeprefix(".")
        several = get_origin(setting.field.annotation) is list
        return f"write [[{heading}]], once for each" if several else f"write [{heading}]"
    wanted = _wanted(kind, setting, location)
    example = _example(setting)
    return f"{wanted}, for example {example}" if example else wanted


def _wanted(kind: str, setting: _Setting, location: Location) -> str:
    if kind == "string_pattern_mismatch":
        return _REPLY if location[-1] == "[key]" else _PATTERNS.get(setting.key, _OTHERWISE)
    return _KINDS.get(kind) or _KINDS.get(kind.partition("_")[0], _OTHERWISE)


def find_setting(model: type[BaseModel], section: str, location: Location) -> _Setting:
    """Follow a location through the models, as far as it exists."""
    key, field = "", None
    for depth, part in enumerate(location):
        if isinstance(part, int):
            continue
        if field is not None:
            inner = _model(field)
            if inner is None:
                return _Setting(section, key, field, [], location[depth:])
            section, model = f"{section}.{key}".removeprefix("."), inner
        key, field = part, _fields(model).get(part)
        if field is None:
            return _Setting(section, key, None, list(_fields(model)), location[depth + 1 :])
    inner = model if field is None else _model(field)
    return _Setting(section, key, field, list(_fields(inner)) if inner else [], ())


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _model(field: FieldInfo) -> type[BaseModel] | None:
    found = [field.annotation]
    while found:
        hint = found.pop()
        if isinstance(hint, type) and get_origin(hint) is None and issubclass(hint, BaseModel):
            return hint
        if get_origin(hint) is not dict:
            found += get_args(hint)
    return None


def _example(setting: _Setting) -> str:
    if setting.field is None:
        return ""
    section, _, inside = setting.section.partition(".")
    if not inside or is_array(section, inside):
        return f"{setting.key} = {example_value(setting.section, setting.key, setting.field)}"
    table = tomllib.loads(f"table = {example_value(section, inside)}")["table"]
    default = setting.field.get_default(call_default_factory=True)
    value = table.get(setting.key, default if isinstance(default, str | int) else "…")
    return f"{setting.key} = {json.dumps(value, ensure_ascii=False)}"


def _unit(field: FieldInfo | None) -> str:
    measured = [getattr(item, "func", None) for item in (field.metadata if field else ())]
    return next((unit for read, unit in _UNITS.items() if read in measured), "")
