"""
What compiled rules and conditions mean, as data: for whoever wants to write them in another way.

The functions in `mappings.rules` and beside it are the rules; what stands here says the same of
each of them, so that `mappings.forms` can write code for it. Equal meanings are equal values.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mappings.hl7.path import Path

Function = Callable[..., Any]
Known = TypeVar("Known", bound=Function)


@dataclass(frozen=True, slots=True)
class Meaning:
    """Root of what a rule or a condition may be."""


@dataclass(frozen=True, slots=True)
class Opaque(Meaning):
    """Known as a function of the scope alone: a hook."""

    function: Function


@dataclass(frozen=True, slots=True)
class Const(Meaning):
    """A text."""

    text: str


@dataclass(frozen=True, slots=True)
class Fetched(Meaning):
    """One value of the message; `raw` leaves escapes and delimiters inside it alone."""

    path: Path
    raw: bool


@dataclass(frozen=True, slots=True)
class First(Meaning):
    """The first that has a value."""

    parts: tuple[Meaning, ...]


@dataclass(frozen=True, slots=True)
class Joined(Meaning):
    """All that have a value, joined."""

    parts: tuple[Meaning, ...]
    separator: str


@dataclass(frozen=True, slots=True)
class Gathered(Meaning):
    """Every segment and repetition of one field: joined, or the first of them."""

    paths: tuple[Path, ...]
    after: tuple[str, ...]
    where: Meaning | None
    separator: str
    only_first: bool
    raw: bool


@dataclass(frozen=True, slots=True)
class Aged(Meaning):
    """The age of who was born then, on that day."""

    birth: Meaning
    day: Meaning


@dataclass(frozen=True, slots=True)
class Extracted(Meaning):
    """What a pattern finds in a value."""

    of: Meaning
    search: Function


@dataclass(frozen=True, slots=True)
class Transformed(Meaning):
    """A value after a named transform."""

    of: Meaning
    apply: Function


@dataclass(frozen=True, slots=True)
class Coded(Meaning):
    """
    A value after a code table, whose `entries` are by code in upper case.

    `look_up` takes the defaults too, notes a code that the table lacks, and gives None to refuse.
    """

    of: Meaning
    look_up: Function
    entries: Mapping[str, str] = field(hash=False, compare=False)


@dataclass(frozen=True, slots=True)
class When(Meaning):
    """A value where a condition holds."""

    of: Meaning
    condition: Meaning


@dataclass(frozen=True, slots=True)
class Defaulted(Meaning):
    """A value, else a text; `listener` stands for the listener's site."""

    of: Meaning
    text: str


@dataclass(frozen=True, slots=True)
class Holds(Meaning):
    """Whether a value passes a test; a null is tested as nothing."""

    of: Meaning
    test: Function


@dataclass(frozen=True, slots=True)
class Every(Meaning):
    """Whether all of these hold."""

    parts: tuple[Meaning, ...]


@dataclass(frozen=True, slots=True)
class Some(Meaning):
    """Whether one of these holds."""

    parts: tuple[Meaning, ...]


@dataclass(frozen=True, slots=True)
class Unless(Meaning):
    """Whether this does not hold."""

    part: Meaning


def nothing(_scope: Any) -> str:
    """Yield nothing: what a rule with a mistake does."""
    return ""


class Meanings:
    """What is known of the functions that a compilation has made."""

    def __init__(self) -> None:
        self._known: dict[Function, Meaning] = {nothing: Const("")}
        self.takes_long = False
        """Whether a hook is among them, or a pattern of many steps: not for an event loop."""

    def note(self, function: Known, meaning: Meaning) -> Known:
        """Remember what a function means; give it back."""
        self._known[function] = meaning
        return function

    def of(self, function: Function) -> Meaning:
        """Say what a function means."""
        return self._known.get(function) or Opaque(function)

    def each(self, functions: "list[Known]") -> tuple[Meaning, ...]:
        """Say what several functions mean, in order."""
        return tuple(map(self.of, functions))
