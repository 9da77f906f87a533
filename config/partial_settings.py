"""
Settings without their invalid parts, so that a check can find further mistakes.

The service never uses them, because omitted parts have their defaults.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import SettingsError as EnvironmentMistake

from config.errors import Mistake, SettingsError
from config.settings import FILE_NAME, Settings, parse
from config.toml_text import parse_toml

_LINE = re.compile(r":(\d+)(:\d+)?")
_MAX_ERRORS = 20
_ROUNDS = 5  # validators of the whole model run only when its parts are valid


def valid_settings(home: Path) -> Settings | None:
    """Return the valid part of the settings; None if nothing can be read."""
    file = home / FILE_NAME
    try:
        text, _ = _without_wrong_lines(file.read_text("utf-8"), file)
        values = parse_toml(text, file)
    except (OSError, ValueError, SettingsError):
        return None
    values.pop("home", None)
    for _ in range(_ROUNDS):
        try:
            settings = Settings(**{**values, "home": home.absolute()})
        except EnvironmentMistake:
            return None
        except ValidationError as error:
            places = [each["loc"] or each.get("ctx", {}).get("loc", ()) for each in error.errors()]
            for place in sorted(places, key=str, reverse=True):
                _remove(values, place)
            values = _compact(values)
        else:
            return settings.model_copy(update={"home": home.absolute()})
    return None


def further_mistakes(home: Path) -> list[Mistake]:
    """Return the lines of bridge.toml that are not TOML, and the mistakes in the other lines."""
    file = home / FILE_NAME
    try:
        text, found = _without_wrong_lines(file.read_text("utf-8"), file)
    except (OSError, ValueError):
        return []
    try:
        parse(text, home, file)
    except SettingsError as error:
        return [*found, *error.mistakes]
    return found


def _without_wrong_lines(text: str, file: Path) -> tuple[str, list[Mistake]]:
    """Empty the lines that are not TOML, so that the others keep their numbers."""
    lines, found = text.split("\n"), list[Mistake]()
    for _ in range(_MAX_ERRORS):
        try:
            parse_toml("\n".join(lines), file)
        except SettingsError as error:
            (mistake, *_) = error.mistakes
            number = _LINE.fullmatch(mistake.place.removeprefix(str(file)))
            at = int(number[1]) - 1 if number else len(lines)
            if at >= len(lines) or not lines[at].strip():
                break
            found.append(mistake)
            lines[at] = ""
        else:
            break
    return "\n".join(lines), found


def _remove(values: Any, place: Sequence[Any]) -> None:
    """Remove the deepest existing part of a location."""
    holder, key = None, None
    at = values
    for part in place:
        if not (isinstance(at, dict) and part in at) and not (
            isinstance(at, list) and isinstance(part, int) and part < len(at)
        ):
            break
        holder, key, at = at, part, at[part]
    if isinstance(holder, dict):
        del holder[key]
    elif isinstance(holder, list) and isinstance(key, int):
        holder[key] = None


def _compact(values: Any) -> Any:
    """Remove None from lists."""
    if isinstance(values, dict):
        return {key: _compact(each) for key, each in values.items()}
    if isinstance(values, list):
        return [_compact(each) for each in values if each is not None]
    return values
