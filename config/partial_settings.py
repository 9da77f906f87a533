"""What is left of settings without their mistakes: enough to look for the mistakes of other kinds.

Never served from: what is left out has its default.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import SettingsError as EnvironmentMistake

from config.errors import Mistake, SettingsError
from config.settings import FILE_NAME, Settings, parse
from config.toml_text import read

_LINE = re.compile(r":(\d+)(:\d+)?")
_MOST_LINES = 20
_ROUNDS = 5  # a model is asked for the whole only once its parts are right


def remains(home: Path) -> Settings | None:
    """Give the settings of a home without what is wrong in them; None when nothing can be read."""
    file = home / FILE_NAME
    try:
        text, _ = _without_wrong_lines(file.read_text("utf-8"), file)
        values = read(text, file)
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
                _leave_out(values, place)
            values = _compact(values)
        else:
            return settings.model_copy(update={"home": home.absolute()})
    return None


def further_mistakes(home: Path) -> list[Mistake]:
    """Find the mistakes of bridge.toml beside its lines that are no TOML, and all such lines."""
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
    """Empty the lines that are no TOML, so that the others keep their numbers."""
    lines, found = text.split("\n"), list[Mistake]()
    for _ in range(_MOST_LINES):
        try:
            read("\n".join(lines), file)
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


def _leave_out(values: Any, place: Sequence[Any]) -> None:
    """Take away the deepest part of a place that is there."""
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
    """Close the gaps in lists."""
    if isinstance(values, dict):
        return {key: _compact(each) for key, each in values.items()}
    if isinstance(values, list):
        return [_compact(each) for each in values if each is not None]
    return values
