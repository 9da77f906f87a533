"""
Which variable of the environment says a setting: `BRIDGE_HTTP__BIND`, in whatever case.

Tables and lists may be said whole, as JSON: `BRIDGE_ALERTS__WEBHOOK='{"url": "https://…"}'`.
"""

import json
import os
from collections.abc import Iterator
from typing import Final, get_origin

from pydantic import BaseModel

from config.errors import Mistake
from config.places import Location
from config.wording import find

PREFIX: Final = "BRIDGE_"
BETWEEN: Final = "__"


def variable(location: Location) -> str | None:
    """Name the variable that says a setting, what it lies in, or else a part of it."""
    known = {name.upper(): name for name in os.environ}
    wanted = [str(part).upper() for part in location]
    for count in range(len(wanted), 0, -1):
        if found := known.get(PREFIX + BETWEEN.join(wanted[:count])):
            return found
    beginning = PREFIX + BETWEEN.join(wanted) + BETWEEN
    return next((own for name, own in known.items() if wanted and name.startswith(beginning)), None)


def unreadable_variables(model: type[BaseModel]) -> Iterator[Mistake]:
    """Name what says a list or a table and is no JSON; where none is to be seen, all of ours."""
    ours = [name for name in os.environ if name.upper().startswith(PREFIX)]
    wrong = [name for name in ours if _is_wrong(name, model)] or ours
    for name in wrong:
        yield Mistake(name, 'write it as JSON, for example ["a", "b"] or {"key": "value"}')


def _is_wrong(name: str, model: type[BaseModel]) -> bool:
    location = tuple(name.upper().removeprefix(PREFIX).lower().split(BETWEEN))
    setting = find(model, "", location)
    if setting.field is None or setting.more:
        return False
    if not setting.keys and get_origin(setting.field.annotation) not in {list, dict}:
        return False
    try:
        json.loads(os.environ[name])
    except ValueError:
        return True
    return False
