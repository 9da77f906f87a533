"""
Settings of a data directory: `HOME/bridge.toml`.

`load` reports all mistakes at once, each with file and line. It opens no other file.

Environment variables such as `BRIDGE_HTTP__BIND` override the file. A variable may contain a table
or a list as JSON: `BRIDGE_ALERTS__WEBHOOK='{"url": "https://…"}'`.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, get_origin

import pydantic_settings
from pydantic import BaseModel, Field, PrivateAttr, ValidationError, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings import SettingsError as EnvironmentMistake
from typing_extensions import override

from config.dicom import DicomSettings
from config.listeners import ListenerSettings
from config.problems import SettingProblem, describe_problems, find_setting
from config.quantities import FolderAddress
from config.sections import (
    Alerts,
    Assistance,
    ConsoleSettings,
    DatabaseSettings,
    DestinationSettings,
    Engine,
    Http,
    IntakeSettings,
    LifetimeSettings,
    Log,
    Rates,
    Retention,
    ScheduleSettings,
    SignIn,
    Sizes,
    Tracing,
)
from config.toml_text import MAX_MISTAKES, Location, Mistake, SettingsError, parse_toml, position

PREFIX: Final = "BRIDGE_"
SEPARATOR: Final = "__"


def find_variable(location: Location) -> str | None:
    """
    Return the environment variable that sets a location, a table around it, or a part of it.

    None if the environment has no such variable.
    """
    names = {name.upper(): name for name in os.environ}
    parts = [str(part).upper() for part in location]
    for count in range(len(parts), 0, -1):
        if found := names.get(PREFIX + SEPARATOR.join(parts[:count])):
            return found
    prefix = PREFIX + SEPARATOR.join(parts) + SEPARATOR
    return next((name for key, name in names.items() if parts and key.startswith(prefix)), None)


def unreadable_variables(model: type[BaseModel]) -> Iterator[Mistake]:
    """
    Yield a mistake for each environment variable of a list or table that is not JSON.

    If none is found, yield one for each variable with the prefix `BRIDGE_`.
    """
    ours = [name for name in os.environ if name.upper().startswith(PREFIX)]
    wrong = [name for name in ours if _is_not_json(name, model)] or ours
    for name in wrong:
        yield Mistake(name, 'write it as JSON, for example ["a", "b"] or {"key": "value"}')


def _is_not_json(name: str, model: type[BaseModel]) -> bool:
    location = tuple(name.upper().removeprefix(PREFIX).lower().split(SEPARATOR))
    setting = find_setting(model, "", location)
    if setting.field is None or setting.more:
        return False
    if not setting.keys and get_origin(setting.field.annotation) not in {list, dict}:
        return False
    try:
        json.loads(os.environ[name])
    except ValueError:
        return True
    return False


FILE_NAME = "bridge.toml"


class Settings(BaseSettings):
    """The settings of an installation; paths are relative to `home`."""

    model_config = SettingsConfigDict(
        env_prefix="BRIDGE_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    home: Path = Field(exclude=True)
    database: DatabaseSettings = DatabaseSettings()
    http: Http = Http()
    engine: Engine = Engine()
    assistance: Assistance = Assistance()
    rates: Rates = Rates()
    sizes: Sizes = Sizes()
    lifetimes: LifetimeSettings = LifetimeSettings()
    sign_in: SignIn = SignIn()
    intake: IntakeSettings = IntakeSettings()
    listener: list[ListenerSettings] = Field(default_factory=list)
    destination: list[DestinationSettings] = Field(default_factory=list)
    dicom: DicomSettings = DicomSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    alerts: Alerts = Alerts()
    retention: Retention = Retention()
    console: ConsoleSettings = ConsoleSettings()
    tracing: Tracing = Tracing()
    log: Log = Log()
    _of_file: "Settings | None" = PrivateAttr(default=None)

    @property
    def of_file(self) -> "Settings":
        """The settings of bridge.toml, if these also contain what the console saved."""
        return self._of_file or self

    def with_saved(self, update: Mapping[str, Any]) -> "Settings":
        """Return a copy with sections that the console saved; `of_file` is still bridge.toml."""
        saved = self.model_copy(update=update)
        saved._of_file = self.of_file  # noqa: SLF001  # of the same class
        return saved

    @classmethod
    @override
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the environment override the file, which `load` passes as initial values."""
        return env_settings, init_settings

    @model_validator(mode="after")
    def _names_and_ports_are_unique(self) -> "Settings":
        twice = [
            *_repeated("listener", "name", [listener.name for listener in self.listener]),
            *_repeated("listener", "bind", _bound(self.listener)),
            *_repeated(
                "destination", "name", [destination.name for destination in self.destination]
            ),
        ]
        if twice:
            raise ValueError("; ".join(twice))
        return self

    @model_validator(mode="after")
    def _dicom_is_no_listener(self) -> "Settings":
        """Messages of modalities are stored under this name of a listener."""
        if self.dicom.bind is None:
            return self
        for at, listener in enumerate(self.listener):
            if listener.name == "dicom":
                text = "dicom is the name of the DICOM port: give the listener another one"
                raise PydanticCustomError("name", text, {"loc": ("listener", at, "name")})
        return self

    @model_validator(mode="after")
    def _shared_port_needs_postgresql(self) -> "Settings":
        shared = [at for at, listener in enumerate(self.listener) if listener.share_port]
        if shared and self.database.url.startswith("sqlite:"):
            place = ("listener", shared[0], "share_port")
            text = "several nodes need PostgreSQL (database.url)"
            raise PydanticCustomError("share_port", text, {"loc": place})
        return self

    def path(self, relative: Path) -> Path:
        return self.home / relative

    def database_url(self) -> str:
        """Return the URL of the bridge's database; a SQLite path is resolved."""
        return _resolved(self.database.url, self.home)

    def engine_database_url(self) -> str:
        """
        Return the URL of the internal engine's database.

        By default it is the same PostgreSQL database. On SQLite it is a separate file, so that the
        engine's transactions never delay an acknowledgment.
        """
        if self.database.engine_url:
            return _resolved(self.database.engine_url, self.home)
        if not self.database.url.startswith("sqlite:///"):
            return self.database.url
        file = Path(self.database.url.removeprefix("sqlite:///"))
        return _resolved(f"sqlite:///{file.with_stem(file.stem + '-engine')}", self.home)


def paths_in(value: object) -> Iterator[Path]:
    """Yield the paths in a section, and in the sections, lists and tables inside it."""
    if isinstance(value, Path):
        yield value
    elif isinstance(value, BaseModel):
        for _, member in value:  # unlike getattr, without warnings for deprecated settings
            yield from paths_in(member)
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from paths_in(item)


def _resolved(url: str, home: Path) -> str:
    if not url.startswith("sqlite:///"):
        return url
    return f"sqlite:///{home / url.removeprefix('sqlite:///')}"


def _bound(listeners: list[ListenerSettings]) -> list[str]:
    """Return the addresses that only one enabled listener may have; port 0 is always free."""
    return [
        str(listener.bind)
        for listener in listeners
        if listener.enabled and (isinstance(listener.bind, FolderAddress) or listener.bind.port)
    ]


def _repeated(section: str, key: str, values: list[str]) -> Iterator[str]:
    for value in sorted(value for value, times in Counter(values).items() if times > 1):
        yield f"{section}.{key} {value} is used more than once"


def load(home: Path) -> Settings:
    """
    Read `HOME/bridge.toml` and the environment.

    Raises SettingsError with every mistake: an unreadable file, wrong TOML, unknown keys,
    wrong values, names or ports used twice.
    """
    file = home / FILE_NAME
    try:
        text = file.read_text("utf-8")
    except OSError as error:
        reason = (
            "not found; `bridge init` creates it"
            if isinstance(error, FileNotFoundError)
            else (error.strerror or "cannot be read")
        )
        raise SettingsError([Mistake(str(file), reason)]) from error
    except UnicodeDecodeError as error:
        raise SettingsError([Mistake(str(file), "is not UTF-8 text")]) from error
    return parse(text, home, file)


def parse(text: str, home: Path, file: Path) -> Settings:
    """Parse settings from TOML text; `file` is the place of mistakes. Raises SettingsError."""
    values = parse_toml(text, file)
    if "home" in values:
        raise SettingsError([Mistake(f"{file}{position(text, ('home',))}", "unknown key home")])
    try:
        settings = Settings(**{**values, "home": home.absolute()})
    except pydantic_settings.SettingsError as error:
        raise SettingsError(list(unreadable_variables(Settings))) from error
    except ValidationError as error:
        repeated = list(islice(_repeated_in_file(values, text, file), MAX_MISTAKES))
        problems = [
            problem
            for problem in describe_problems(error, Settings)
            if problem.location or not repeated
        ]
        raise SettingsError(
            [*(_mistake(problem, text, file) for problem in problems), *repeated]
        ) from error
    # A BRIDGE_HOME in the environment must not change the folder of the file.
    return settings.model_copy(update={"home": home.absolute()})


def _repeated_in_file(values: dict[str, Any], text: str, file: Path) -> Iterator[Mistake]:
    """
    Find repeated names and addresses in the file, with their places.

    The model finds them only in settings without other mistakes, and in the environment.
    """
    for section, key in (("listener", "name"), ("listener", "bind"), ("destination", "name")):
        entries = values.get(section)
        seen: set[str] = set()
        for at, entry in enumerate(entries if isinstance(entries, list) else ()):
            value = entry.get(key) if isinstance(entry, dict) else None
            if not isinstance(value, str) or (key == "bind" and value.endswith(":0")):
                continue
            if value in seen:
                place = f"{file}{position(text, (section, at, key))}"
                yield Mistake(place, f"{section}.{key} {value} is used more than once")
            seen.add(value)


def _mistake(problem: SettingProblem, text: str, file: Path) -> Mistake:
    name = ".".join(str(part + 1) if isinstance(part, int) else part for part in problem.location)
    place = find_variable(problem.location) or f"{file}{position(text, problem.location)}"
    return Mistake(place, f"{name}: {problem.message}" if name else problem.message)


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
            places = [
                mistake["loc"] or mistake.get("ctx", {}).get("loc", ())
                for mistake in error.errors()
            ]
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
        return {key: _compact(value) for key, value in values.items()}
    if isinstance(values, list):
        return [_compact(value) for value in values if value is not None]
    return values
