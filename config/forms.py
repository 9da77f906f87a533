"""The fields of a form for a listener or destination, derived from the models. Pure."""

import types
from collections.abc import Iterator, Mapping
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo


class FieldKind(StrEnum):
    TEXT = "text"
    NUMBER = "number"
    SECONDS = "seconds"
    YES = "yes"
    CHOICE = "choice"
    SEVERAL = "several"  # of choices
    WORDS = "words"  # a list
    PAIRS = "pairs"  # keys with values
    FILE = "file"  # a path, relative to HOME


def form_fields(model: type[BaseModel], prefix: str = "") -> Iterator[Mapping[str, Any]]:
    """
    Describe the keys of a section.

    Keys of an inner section begin with its name: `tls.key`. Each description has `name`, `kind`,
    `choices`, `default`, `required` and `help`.
    """
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        section = _section(field)
        if section is not None:
            yield from form_fields(section, f"{key}.")
            continue
        kind, choices = _kind(field)
        default = field.get_default(call_default_factory=True)
        yield {
            "name": key,
            "kind": kind,
            "choices": choices,
            "default": None if field.is_required() else to_plain_value(default),
            "required": field.is_required(),
            "help": field.description or "",
        }


def to_table(section: BaseModel) -> dict[str, Any]:
    """Return a section as in the file: the keys whose values are not the defaults."""
    found = {}
    values = dict(section)  # unlike getattr, without warnings for deprecated settings
    for name, field in type(section).model_fields.items():
        value = values[name]
        if isinstance(value, BaseModel):
            found[field.alias or name] = to_table(value)
        elif value != field.get_default(call_default_factory=True):
            found[field.alias or name] = to_plain_value(value)
    return found


def to_plain_value(value: Any) -> Any:
    """Return a value as in the file."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, BaseModel):
        return to_table(value)
    if isinstance(value, list):
        return [to_plain_value(item) for item in value]
    if isinstance(value, Path | str):
        return str(value)
    return value


def _section(field: FieldInfo) -> type[BaseModel] | None:
    found = [
        option
        for option in _options(field.annotation)
        if isinstance(option, type) and issubclass(option, BaseModel)
    ]
    return found[0] if found else None


def _kind(field: FieldInfo) -> tuple[FieldKind, list[str]]:
    options = [option for option in _options(field.annotation) if option is not type(None)]
    first = options[0]
    if get_origin(first) is Literal:
        return FieldKind.CHOICE, list(get_args(first))
    if get_origin(first) is dict:
        return FieldKind.PAIRS, []
    if get_origin(first) is list:
        (inner,) = get_args(first)
        of_choices = get_origin(inner) is Literal
        return (FieldKind.SEVERAL, list(get_args(inner))) if of_choices else (FieldKind.WORDS, [])
    if isinstance(first, type) and issubclass(first, StrEnum):
        return FieldKind.CHOICE, [member.value for member in first]
    if first is float:
        return FieldKind.SECONDS, []
    return {bool: FieldKind.YES, int: FieldKind.NUMBER, Path: FieldKind.FILE}.get(
        first, FieldKind.TEXT
    ), []


def _options(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (Union, types.UnionType):
        return list(get_args(annotation))
    return [annotation]
