"""Code for conditions: what is known of a form decides now, values decide when a message comes."""

from collections.abc import Callable

from mappings.fetch import NULL
from mappings.forms.ground import Ground
from mappings.forms.writer import Text, Unwritable, Writer
from mappings.meaning import Every, Holds, Meaning, Some, Unless

Condition = bool | str
"""Known now, or the name of a variable."""


class Conditions:
    """Writes conditions for messages of one form."""

    def __init__(self, writer: Writer, value: Callable[[Ground, Meaning], Text]) -> None:
        """`value` writes a value."""
        self._writer, self._value = writer, value
        self._null = writer.constant(NULL)

    def condition(self, ground: Ground, what: Meaning) -> Condition:
        """Write a condition. Raises Unwritable."""
        match what:
            case Holds():
                return self._holds(ground, what)
            case Every():
                return self._several(ground, what.parts, every=True)
            case Some():
                return self._several(ground, what.parts, every=False)
            case Unless():
                met = self.condition(ground, what.part)
                return not met if isinstance(met, bool) else self._writer.let(f"not {met}")
            case _:
                raise Unwritable

    def _holds(self, ground: Ground, what: Holds) -> Condition:
        found = self._value(ground, what.of)
        if found.said is not None:
            return bool(what.test("" if found.said == NULL else found.said))
        name = found.name
        said = f"'' if {name} == {self._null} else {name}" if found.nullable else name
        among = getattr(what.test, "__self__", None)
        if isinstance(among, frozenset):
            return self._writer.let(f"({said}) in {self._writer.constant(among)}")
        return self._writer.let(f"{self._writer.constant(what.test)}({said})")

    def _several(self, ground: Ground, parts: tuple[Meaning, ...], *, every: bool) -> Condition:
        start, value = len(self._writer.lines), self._writer.let(str(every))
        known: Condition = every
        for part in parts:
            with self._writer.under(f"if {value}:" if every else f"if not {value}:"):
                met = self.condition(ground, part)
                if met is (not every):
                    known = met if known is every else known
                if met is not every:
                    self._writer.put(f"{value} = {met}")
                    known = value if known is every else known
        if len(self._writer.lines) == start + 1:
            self._writer.drop(start)
        return known
