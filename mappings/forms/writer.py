"""
Writes one Python function, line by line. Knows no HL7.

What an administrator or a sender wrote never becomes source: it is a constant of the function,
under a name that is made here.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

DEEPEST = 40  # blocks within blocks; Python itself gives up at a hundred
_MOST_LINES = 4000
_NAME = "mapped"


class Unwritable(Exception):  # noqa: N818  # says what it is
    """What a definition asks for cannot be written as straight code; rules do it themselves."""


class Folded(Unwritable):
    """What was begun to be written turned out to be nothing."""


class Text(NamedTuple):
    """A value in the code: a text that is known now, or else the name of a variable."""

    said: str | None = None
    name: str = ""
    nullable: bool = False
    """Whether it may be the HL7 null."""
    pure: bool = True
    """Whether asking again gives the same, and nobody notices."""
    marks: tuple[str, ...] | None = None
    """Which marks may be in it beside that of components, and quotation marks; None: unknown."""


NOTHING = Text("")


class Writer:
    """The lines so far, the constants they name, and which values have a variable already."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, object] = {}
        self._named: dict[Hashable, str] = {}
        self._known: list[dict[Hashable, Any]] = [{}]
        self._depth = 1
        self._count = 0

    def put(self, line: str) -> None:
        """Write a line. Raises Unwritable where there are too many."""
        if len(self.lines) >= _MOST_LINES:
            raise Unwritable
        self.lines.append("    " * self._depth + line)

    def fresh(self) -> str:
        """Make a name for a variable."""
        self._count += 1
        return f"v{self._count}"

    def let(self, expression: str) -> str:
        """Give a value a variable of its own."""
        name = self.fresh()
        self.put(f"{name} = {expression}")
        return name

    def constant(self, value: object) -> str:
        """Name a constant; equal texts have one name."""
        key: Hashable = ("text", value) if isinstance(value, str) else ("object", id(value))
        name = self._named.get(key)
        if name is None:
            name = self._named[key] = f"k{len(self.constants)}"
            self.constants[name] = value
        return name

    def of(self, text: Text) -> str:
        """Give the expression of a value."""
        return text.name if text.said is None else self.constant(text.said)

    @contextmanager
    def under(self, head: str) -> Iterator[None]:
        """Write a block; one that stays empty is not written at all."""
        if self._depth >= DEEPEST:
            raise Unwritable
        self.put(head)
        start = len(self.lines)
        self._depth += 1
        self._known.append({})
        try:
            yield
        finally:
            self._known.pop()
            self._depth -= 1
        if len(self.lines) == start:
            self.lines.pop()

    def drop(self, start: int) -> None:
        """Take back the lines from one on; nothing of them may be known."""
        del self.lines[start:]

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Write something that may turn out Unwritable: then nothing of it is left."""
        start, depth, known = len(self.lines), self._depth, len(self._known)
        self._known.append({})
        try:
            yield
        except Unwritable:
            del self.lines[start:], self._known[known:]
            self._depth = depth
            raise
        found = self._known.pop()
        self._known[-1].update(found)

    def known(self, key: Hashable) -> Any:
        """Give what is known under a key where the next line stands, else None."""
        return next((each[key] for each in reversed(self._known) if key in each), None)

    def know(self, key: Hashable, value: Any) -> None:
        """Remember something for this block and those within it."""
        self._known[-1][key] = value

    def function(self, parameters: str, opening: list[str]) -> Callable[..., Any]:
        """Compile what was written, behind an opening."""
        source = "\n".join([f"def {_NAME}({parameters}):", *opening, *self.lines])
        space = dict(self.constants)
        exec(compile(source, "<a form of messages>", "exec"), space)  # noqa: S102  # our own lines; no text of anybody is among them
        made: Callable[..., Any] = space[_NAME]  # type: ignore[assignment]  # it was just defined
        return made
