"""
Segments by their names: some of a message's, one of them, none, and those beyond.

What stands together is known by place; a segment is made when it is first asked for.
"""

from collections.abc import Iterator, Mapping, Sequence

from mappings.hl7.message import Message, Segment


class Places:
    """Which segments of a message belong together: their places in order, and by their name."""

    __slots__ = ("filed", "order")

    def __init__(self, order: Sequence[int], names: Sequence[str]) -> None:
        """Take places in the message, and the names of all its segments."""
        self.order = order
        self.filed: dict[str, list[int]] = {}
        for place in order:
            self.filed.setdefault(names[place], []).append(place)

    def named(self, message: Message, name: str) -> list[Segment]:
        """Return the segments of a name among them."""
        return [message.segment(place) for place in self.filed.get(name, ())]


class Rows(dict[str, Sequence[Segment]]):
    """Segments by their id, those at some places, else those beyond. Looks when first asked."""

    __slots__ = ("_beyond", "_message", "_places")

    def __init__(
        self,
        message: Message,
        places: Places,
        beyond: Mapping[str, Sequence[Segment]] | None = None,
    ) -> None:
        super().__init__()
        self._message = message
        self._places = places
        self._beyond = beyond

    def __missing__(self, name: str) -> Sequence[Segment]:
        """Find the segments of a name; none is an answer too, and remembered."""
        rows: Sequence[Segment] = ()
        if name in self._places.filed:
            rows = self._places.named(self._message, name)
        elif self._beyond is not None:
            rows = self._beyond[name]
        self[name] = rows
        return rows


class Beyond(dict[str, Sequence[Segment]]):
    """Segments by their id: those that are given, else those beyond."""

    __slots__ = ("beyond",)

    beyond: Mapping[str, Sequence[Segment]]

    def __missing__(self, name: str) -> Sequence[Segment]:
        """Look beyond."""
        rows = self[name] = self.beyond[name]
        return rows


class Nothing(dict[str, Sequence[Segment]]):
    """No segments of any name."""

    __slots__ = ()

    def __missing__(self, name: str) -> Sequence[Segment]:
        return ()


class Firsts(dict[str, Sequence[str]]):
    """The fields of the first segment of each id, by their numbers; nothing where there is none."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Mapping[str, Sequence[Segment]]) -> None:
        super().__init__()
        self._rows = rows

    def __missing__(self, name: str) -> Sequence[str]:
        """Split a segment when it is first asked for."""
        rows = self._rows[name]
        self[name] = fields = rows[0].fields if rows else ()
        return fields


def behind(rows: Sequence[Segment], anchor: str, names: Sequence[str]) -> Iterator[Segment]:
    """Choose those that follow a segment of another name, alone or after others of their own."""
    before, followed = -1, ""
    for row in rows:
        if row.index - 1 != before or before < 0:
            back = row.index - 1
            while back >= 0 and names[back] == row.id:
                back -= 1
            followed = names[back] if back >= 0 else ""
        before = row.index
        if followed == anchor:
            yield row
