"""
The list mechanism: filters, keyset pages and bounded cost, for tables whose ids ascend with time.

Each filter has a *probe*, a condition on a row, and may have a *driver*, an index that returns ids
in order. The most selective driver of a request yields at most `budget` ids; the row of each is
looked up, and the other filters are probes. Without a driver, a range of ids is read. A page that
is not full after that says how far it has looked, and the next page continues there. So a page
costs the same on any number of rows.

The statements depend on their plans: the ids are the outer side of a nested loop, in the order of
their index, so that a full page ends the search. SQLite keeps the order of `CROSS JOIN`. On
PostgreSQL `OFFSET 0` forces one index lookup for each id, which reads one partition (ADR 0006).
Tests check the plans on both databases. Blocking.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, ClassVar, Final, Generic, TypeVar

from sqlalchemy import Connection, text

from bridge.admin.access.permissions import Grant, Permission
from bridge.admin.errors import InvalidContent, PermissionDenied
from bridge.store.database import Database
from bridge.store.statements import is_postgresql

ID_WINDOW: Final = 20_000
"""The number of ids that a page without a driver examines."""
JOINED_WINDOW: Final = 5_000
"""The same, if the row of another table is looked up for each id."""
BUDGET: Final = 5_000
"""The number of rows that a page looks up by the ids of a driver."""
ABSENT_WINDOW: Final = 250_000
"""The number of entries that a page examines for missing tags."""
SORTABLE: Final = 5_000
"""Up to this number of rows can be sorted by a column."""
MAX_COUNT: Final = 10_000
MAX_BRANCHES: Final = 16
"""Branches of a driver, at most. On PostgreSQL each may have to be read up to the budget."""
MAX_ROWS: Final = 200
"""Rows of a page, at most."""
_SAMPLE: Final = 1_000
_SAMPLE_WINDOW: Final = 50_000
MAX_VALUES: Final = 64
_MAX_TEXT: Final = 200

Filters = Mapping[str, Any]
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Access:
    """Who asks: the visible sites (None: all) and the permissions."""

    sites: frozenset[str] | None = None
    permissions: frozenset[Permission] = frozenset(Permission)

    @classmethod
    def of(cls, grant: Grant) -> "Access":
        return cls(grant.visible_sites, grant.permissions)

    def require(self, permission: Permission) -> None:
        """Raise PermissionDenied without the permission."""
        if permission not in self.permissions:
            raise PermissionDenied(permission)


UNLIMITED: Final = Access()
"""The access of commands."""


@dataclass(frozen=True, slots=True)
class ListRequest:
    """
    A page of a list.

    `before` continues where a page ended (its `next`). `after` returns rows with greater ids,
    oldest first: new rows, without losing the place. `sort` is `time` or a column of the list.
    """

    filters: Filters = field(default_factory=dict)
    sort: str = "time"
    descending: bool = True
    before: int | None = None
    after: int | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True)
class ListPage(Generic[Row]):
    """
    Rows of a page, which may be fewer than asked for even if more follow.

    `next` continues (`ListRequest.before`, or `after`); None after the last row. `examined_to`: the
    time (ms) back to which an incomplete page has looked. `complete`: nothing follows. `sortable`:
    so few rows match that they can be sorted by a column.
    """

    rows: Sequence[Row]
    next: int | None
    examined_to: int | None
    complete: bool
    sortable: bool


@dataclass(frozen=True, slots=True)
class IdPage:
    """Matching ids, ascending; `cursor`: all ids up to it were examined; `complete`: no more."""

    ids: Sequence[int]
    cursor: int
    complete: bool


class Parameters:
    """The parameters of a statement, which are added while its text is built."""

    def __init__(self, *, postgresql: bool) -> None:
        self.postgresql = postgresql
        self.values: dict[str, Any] = {}
        self._numbers = count()

    def add(self, value: Any) -> str:
        """Add a value; return its placeholder."""
        name = f"p{next(self._numbers)}"
        self.values[name] = value
        return f":{name}"

    def among(self, column: str, values: Collection[Any]) -> str:
        """Return the condition that a column has one of the values."""
        found = list(values)
        if not self.postgresql:
            return f"{column} IN (SELECT value FROM json_each({self.add(json.dumps(found))}))"  # noqa: S608  # our own names
        kind = "bigint" if all(isinstance(value, int) for value in found) else "text"
        return f"{column} = ANY (CAST({self.add(found)} AS {kind}[]))"


@dataclass(frozen=True, slots=True)
class Branch:
    """A query that returns ids by an index: its text, to which bounds of `key` are added."""

    text: str
    key: str = "id"


@dataclass(frozen=True, slots=True)
class Driver:
    """
    Branches whose ids, together, are those that match a filter.

    `reads_all`: the branches also read entries that do not match, so a page examines
    `ABSENT_WINDOW` ids at most.
    """

    branches: tuple[Branch, ...]
    reads_all: bool = False

    @property
    def counts_ids(self) -> bool:
        """True if the number of ids is the number of rows; several branches may share ids."""
        return not self.reads_all and len(self.branches) == 1

    @property
    def window(self) -> int | None:
        return ABSENT_WINDOW if self.reads_all else None


@dataclass(frozen=True, slots=True)
class Criterion:
    """One filter: a condition on the row `m`, and the driver that can replace it."""

    probe: str
    driver: Driver | None = None


NOTHING: Final = Criterion("1 = 0")
"""Matches no row."""


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Ids from `low` on and below `high`."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class _Search:
    """A request as parts of statements."""

    parameters: Parameters
    bounds: _Bounds
    driver: Driver | None
    probes: tuple[str, ...]
    access: Access


class ListDefinition(ABC, Generic[Row]):
    """
    A list of a table whose rows are called `m` in statements.

    `select` are the columns of a row, `sorts` the columns by which few rows can be sorted.
    """

    name: ClassVar[str]
    table: ClassVar[str]
    select: ClassVar[str]
    joins: ClassVar[str] = ""
    sorts: ClassVar[Mapping[str, str]] = {}
    filters: ClassVar[frozenset[str]]
    private: ClassVar[frozenset[str]] = frozenset()
    """Filters whose values are patient data."""

    @abstractmethod
    def id_at(self, connection: Connection, moment: int) -> int:
        """Return an id from which on all rows are of a time (ms) or later."""

    @abstractmethod
    def time_at(self, connection: Connection, row_id: int) -> int | None:
        """Return the time (ms) of the first row from an id on."""

    @abstractmethod
    def criteria(
        self, connection: Connection, parameters: Parameters, filters: Filters, access: Access
    ) -> list[Criterion]:
        """Return the criteria of filters other than `since` and `until`, and of the sites."""

    @abstractmethod
    def convert(self, row: Mapping[Any, Any]) -> Row:
        """Convert the columns of `select`."""

    def with_times(self, filters: Filters) -> Filters:
        """Return the filters with the `since` and `until` that other filters imply."""
        return filters

    def completed(self, connection: Connection, rows: Sequence[Row], access: Access) -> list[Row]:
        """Return the rows of a page with what is read for all of them at once."""
        return list(rows)

    def page(self, connection: Connection, request: ListRequest, access: Access) -> ListPage[Row]:
        """Return a page. Raises InvalidContent, PermissionDenied."""
        self._check(request)
        if request.after is not None:
            search = self._search(connection, request.filters, access, low=request.after + 1)
            return self._page_by_id(connection, search, request, descending=False)
        if request.sort == "time":
            return self._page_by_time(connection, request, access)
        search = self._search(connection, request.filters, access)
        if not self._is_sortable(connection, search):
            by_time = replace(request, sort="time", descending=True, before=None)
            page = self._page_by_time(connection, by_time, access)
            return replace(page, sortable=False)
        return self._sorted_page(connection, search, request)

    def newest_id(self, connection: Connection) -> int:
        """Return the greatest id, 0 without rows."""
        return self._span(connection)[1]

    def _span(self, connection: Connection) -> tuple[int, int]:
        """Return the least and the greatest id."""
        statement = (
            f"SELECT (SELECT min(id) FROM {self.table}) AS low,"  # noqa: S608  # our own names
            f" (SELECT max(id) FROM {self.table}) AS high"
        )
        row = connection.execute(text(statement)).one()
        return row.low or 0, row.high or 0

    def ids_after(
        self,
        connection: Connection,
        filters: Filters,
        access: Access,
        cursor: int,
        upper: int,
        limit: int,
    ) -> IdPage:
        """Return matching ids above `cursor` and up to `upper`, ascending, at a bounded cost."""
        self._check(ListRequest(filters))
        search = self._search(connection, filters, access, low=cursor + 1, upper=upper)
        statement, values = self._statement(search, "m.id", limit, descending=False)
        found = list(dict.fromkeys(connection.execute(text(statement), values).scalars()))
        if len(found) >= limit:
            return IdPage(found, found[-1], complete=False)
        reached = self._reached(connection, search, limit, descending=False)
        return IdPage(found, upper if reached is None else reached, complete=reached is None)

    def count(
        self, connection: Connection, filters: Filters, access: Access, at_most: int = MAX_COUNT
    ) -> tuple[int, bool]:
        """Return how many rows match, up to `at_most`, and whether that is all of them."""
        self._check(ListRequest(filters))
        search = self._search(connection, filters, access)
        return self._count(connection, search, at_most)

    def rows(self, connection: Connection, ids: Sequence[int], access: Access) -> Sequence[Row]:
        """Return rows by their ids, newest first, as far as the sites are visible."""
        parameters = Parameters(postgresql=is_postgresql(connection))
        criteria = self.criteria(connection, parameters, {}, access)
        conditions = [parameters.among("m.id", ids), *(item.probe for item in criteria)]
        statement = (
            f"SELECT {self.select} FROM {self.table} AS m{self.joins}"  # noqa: S608  # our own names
            f" WHERE {' AND '.join(conditions)} ORDER BY m.id DESC"
        )
        found = connection.execute(text(statement), parameters.values).mappings().all()
        return self._converted(connection, found, access)

    def _check(self, request: ListRequest) -> None:
        unknown = set(request.filters) - self.filters - {"since", "until"}
        if unknown:
            raise InvalidContent(f"this list has no filter {min(unknown)[:40]!r}")
        if request.sort != "time" and request.sort not in self.sorts:
            raise InvalidContent("this list is not sorted by this column")

    def _page_by_time(
        self, connection: Connection, request: ListRequest, access: Access
    ) -> ListPage[Row]:
        low, upper = 0, None
        if request.before is not None and request.descending:
            upper = request.before - 1
        elif request.before is not None:
            low = request.before + 1
        search = self._search(connection, request.filters, access, low=low, upper=upper)
        page = self._page_by_id(connection, search, request, descending=request.descending)
        if request.before is not None:
            return page
        few = page.complete and len(page.rows) < request.limit
        return replace(page, sortable=few or self._is_sortable(connection, search))

    def _page_by_id(
        self, connection: Connection, search: _Search, request: ListRequest, *, descending: bool
    ) -> ListPage[Row]:
        statement, values = self._statement(
            search, self.select, request.limit, descending=descending
        )
        found = connection.execute(text(statement), values).mappings().all()
        rows = self._converted(connection, found, search.access)
        if len(found) >= request.limit:
            return ListPage(rows, found[-1]["id"], None, complete=False, sortable=False)
        reached = self._reached(connection, search, request.limit, descending=descending)
        at = None if reached is None else self.time_at(connection, reached)
        return ListPage(rows, reached, at, complete=reached is None, sortable=False)

    def _sorted_page(
        self, connection: Connection, search: _Search, request: ListRequest
    ) -> ListPage[Row]:
        """Return a page in the order of a column; here `before` and `next` count rows."""
        offset = request.before or 0
        order = "DESC" if request.descending else "ASC"
        source, values = self._source(search, descending=True, budget=SORTABLE)
        statement = (
            f"SELECT {self.select} FROM {source}{self.joins}"  # noqa: S608  # our own names
            f"{_where(self._conditions(search))}"
            f" ORDER BY {self.sorts[request.sort]} {order}, m.id DESC LIMIT :limit OFFSET :offset"
        )
        bounds = {"limit": request.limit, "offset": offset}
        found = connection.execute(text(statement), {**values, **bounds}).mappings().all()
        more = len(found) == request.limit
        rows = self._converted(connection, found, search.access)
        following = offset + request.limit if more else None
        return ListPage(rows, following, None, complete=not more, sortable=True)

    def _search(
        self,
        connection: Connection,
        filters: Filters,
        access: Access,
        *,
        low: int = 0,
        upper: int | None = None,
    ) -> _Search:
        """Return the parts of statements about the ids from `low` to `upper`; None: the newest."""
        filters = self.with_times(filters)
        parameters = Parameters(postgresql=is_postgresql(connection))
        criteria = self.criteria(connection, parameters, filters, access)
        oldest, newest = self._span(connection)
        low, upper = max(low, oldest), newest if upper is None else min(upper, newest)
        if "since" in filters:
            low = max(low, self.id_at(connection, number_of(filters, "since")))
        high = upper + 1
        if "until" in filters:
            high = min(high, self.id_at(connection, number_of(filters, "until")))
        bounds = _Bounds(low, max(low, high))
        chosen = self._choose(connection, parameters, bounds, criteria)
        probes = tuple(item.probe for item in criteria if item is not chosen)
        driver = None if chosen is None else chosen.driver
        return _Search(parameters, bounds, driver, probes, access)

    def _choose(
        self,
        connection: Connection,
        parameters: Parameters,
        bounds: _Bounds,
        criteria: Iterable[Criterion],
    ) -> Criterion | None:
        """Return the criterion whose driver has the fewest ids: its 1,000th is the oldest."""
        driven = [item for item in criteria if item.driver is not None]
        if len(driven) < 2:  # noqa: PLR2004  # nothing to choose from
            return driven[0] if driven else None
        depths: list[tuple[int, int]] = []
        for place, item in enumerate(driven):
            driver = item.driver
            assert driver is not None  # noqa: S101  # as filtered above
            near = bounds.high - _SAMPLE_WINDOW
            low = bounds.low if driver.window is None else max(bounds.low, near)
            source = _union(driver, "DESC", postgresql=parameters.postgresql)
            statement = f"SELECT id FROM ({source} LIMIT 1 OFFSET {_SAMPLE - 1}) AS c"  # noqa: S608  # our own names
            values = {**parameters.values, "low": low, "high": bounds.high}
            depth = connection.execute(text(statement), values).scalar()
            if depth is None:  # fewer than the sample down to `low`
                depth = low if low > bounds.low else -1
            depths.append((depth, place))
        return driven[min(depths)[1]]

    def _is_sortable(self, connection: Connection, search: _Search) -> bool:
        number, exact = self._count(connection, search, SORTABLE)
        return exact and number <= SORTABLE

    def _count(self, connection: Connection, search: _Search, at_most: int) -> tuple[int, bool]:
        driver = search.driver
        if driver is not None and not search.probes and driver.counts_ids:
            postgresql = search.parameters.postgresql
            source, values = _union(driver, "DESC", postgresql=postgresql), self._values(search)
            statement = f"SELECT count(*) FROM ({source} LIMIT :limit) AS c"  # noqa: S608  # our own names
            found = connection.execute(text(statement), {**values, "limit": at_most + 1}).scalar()
        elif driver is None and not search.probes:
            statement = (
                f"SELECT count(*) FROM (SELECT 1 FROM {self.table} WHERE id >= :low AND id < :high"  # noqa: S608  # our own names
                " LIMIT :limit) AS c"
            )
            bounds = {"low": search.bounds.low, "high": search.bounds.high}  # the limit is enough
            values = {**bounds, "limit": at_most + 1}
            found = connection.execute(text(statement), values).scalar()
        else:
            inner, values = self._statement(search, "m.id", at_most + 1, descending=True)
            # Two branches of a driver may have the same id.
            statement = f"SELECT count(*), count(DISTINCT id) FROM ({inner}) AS c"  # noqa: S608  # our own names
            examined, number = connection.execute(text(statement), values).one()
            exact = examined <= at_most
            exact = exact and self._reached(connection, search, at_most, descending=True) is None
            return min(number, at_most), exact
        number = int(found or 0)
        return min(number, at_most), number <= at_most

    def _reached(
        self, connection: Connection, search: _Search, limit: int, *, descending: bool
    ) -> int | None:
        """Return the last id that a page of fewer than `limit` rows has examined; None: all."""
        driver, bounds = search.driver, search.bounds
        if driver is None:
            return _edge(bounds, self._window, descending=descending)
        if search.probes or driver.reads_all or limit >= BUDGET:
            order, extreme = ("DESC", "min") if descending else ("ASC", "max")
            ids = _union(driver, order, postgresql=search.parameters.postgresql)
            source = f"{ids} LIMIT :budget"
            statement = f"SELECT {extreme}(id), count(*) FROM ({source}) AS c"  # noqa: S608  # our own names
            values = {**self._values(search, descending=descending), "budget": BUDGET}
            last, number = connection.execute(text(statement), values).one()
            if number >= BUDGET:
                return int(last)
        if driver.window is None:
            return None
        return _edge(bounds, driver.window, descending=descending)

    def _statement(
        self, search: _Search, columns: str, limit: int, *, descending: bool
    ) -> tuple[str, dict[str, Any]]:
        """Return the statement of a page, and its parameters."""
        order = "DESC" if descending else "ASC"
        source, values = self._source(search, descending=descending)
        statement = f"SELECT {columns} FROM {source}{self.joins}{_where(self._conditions(search))}"  # noqa: S608  # our own names
        if search.driver is None:
            statement += f" ORDER BY m.id {order}"
        elif search.parameters.postgresql:
            statement += f" ORDER BY c.id {order}"
        return f"{statement} LIMIT :limit", {**values, "limit": limit}

    def _source(
        self, search: _Search, *, descending: bool, budget: int | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Return the tables of a statement, and its parameters."""
        values = self._values(search, descending=descending)
        driver = search.driver
        if driver is None:
            return f"{self.table} AS m", values
        order = "DESC" if descending else "ASC"
        union = _union(driver, order, postgresql=search.parameters.postgresql)
        ids = f"({union} LIMIT :budget) AS c"
        values["budget"] = BUDGET if budget is None else max(budget, BUDGET)
        if not search.parameters.postgresql:
            return f"{ids} CROSS JOIN {self.table} AS m", values
        row = f"SELECT * FROM {self.table} AS x WHERE x.id = c.id"  # noqa: S608  # our own names
        return (
            f"{ids} CROSS JOIN LATERAL ({row} AND x.id >= :low AND x.id < :high OFFSET 0) AS m",
            values,
        )

    def _conditions(self, search: _Search) -> list[str]:
        if search.driver is None:
            return ["m.id >= :low", "m.id < :high", *search.probes]
        own = [] if search.parameters.postgresql else ["m.id = c.id"]
        return [*own, *search.probes]

    def _values(self, search: _Search, *, descending: bool = True) -> dict[str, Any]:
        """Return the parameters; the bounds are those of the window that one page examines."""
        low, high = search.bounds.low, search.bounds.high
        window = self._window if search.driver is None else search.driver.window
        if window is not None and descending:
            low = max(low, high - window)
        elif window is not None:
            high = min(high, low + window)
        return {**search.parameters.values, "low": low, "high": high}

    @property
    def _window(self) -> int:
        """The number of ids that a page without a driver examines."""
        return min(ID_WINDOW, JOINED_WINDOW) if self.joins else ID_WINDOW

    def _converted(
        self, connection: Connection, found: Iterable[Mapping[Any, Any]], access: Access
    ) -> list[Row]:
        """Convert rows, each once: two branches of a driver may have the same id."""
        rows = {row["id"]: self.convert(row) for row in found}
        return self.completed(connection, list(rows.values()), access)


def _edge(bounds: _Bounds, window: int, *, descending: bool) -> int | None:
    """Return the last id of a window, None if the window contains all ids."""
    if bounds.high - bounds.low <= window:
        return None
    return bounds.high - window if descending else bounds.low + window - 1


def _union(driver: Driver, order: str, *, postgresql: bool) -> str:
    """
    Return the ids of a driver in order. Each branch is read in the order of its index.

    SQLite merges the branches. PostgreSQL may sort them, so each is limited to the budget there.
    """
    branches = [
        f"{branch.text} AND {branch.key} >= :low AND {branch.key} < :high"
        for branch in driver.branches
    ]
    if postgresql and len(branches) > 1:
        branches = [f"({branch} ORDER BY id {order} LIMIT {BUDGET})" for branch in branches]
    return f"{' UNION ALL '.join(branches)} ORDER BY id {order}"


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def exists(query: str) -> str:
    """Return a probe for a related row: looked up for each row, never joined with all of them."""
    return f"EXISTS ({query} LIMIT 1 OFFSET 0)"  # PostgreSQL makes no semi-join of an OFFSET


def texts_of(filters: Filters, name: str) -> list[str]:
    """Return the values of a filter, which is a text or a list of texts. Raises InvalidContent."""
    value = filters[name]
    found = [value] if isinstance(value, str) else value
    if (
        not isinstance(found, list | tuple)
        or not 0 < len(found) <= MAX_VALUES
        or not all(isinstance(item, str) and len(item) <= _MAX_TEXT for item in found)
    ):
        raise InvalidContent(f"the filter {name} needs a text, or up to {MAX_VALUES} texts")
    return list(found)


def text_of(filters: Filters, name: str) -> str:
    """Return the single text of a filter. Raises InvalidContent."""
    (*others, value) = texts_of(filters, name)
    if others:
        raise InvalidContent(f"the filter {name} needs one text")
    return value


def number_of(filters: Filters, name: str) -> int:
    """Return the number of a filter. Raises InvalidContent."""
    value = filters[name]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise InvalidContent(f"the filter {name} needs a number")
    return value


def choices_of(filters: Filters, name: str, known: Collection[str]) -> list[str]:
    """Return values of a filter that must be among `known`. Raises InvalidContent."""
    found = texts_of(filters, name)
    if unknown := [value for value in found if value not in known]:
        raise InvalidContent(f"the filter {name} has no value {unknown[0][:40]!r}")
    return found


def words_probe(parameters: Parameters, columns: Sequence[str], value: str) -> list[Criterion]:
    """Return a criterion for each word: one of the columns contains it, in any letter case."""
    found = []
    for word in value.split()[:10]:
        escaped = word.lower().replace("/", "//").replace("%", "/%").replace("_", "/_")
        place = parameters.add(f"%{escaped}%")
        matches = (f"lower({column}) LIKE {place} ESCAPE '/'" for column in columns)
        found.append(Criterion(f"({' OR '.join(matches)})"))
    return found


def iterate(
    database: Database,
    listed: ListDefinition[Row],
    filters: Filters,
    access: Access = UNLIMITED,
    *,
    before: int | None = None,
    page_size: int = MAX_ROWS,
) -> Iterator[Row]:
    """Yield all matching rows, newest first, page by page. Raises InvalidContent."""
    request = ListRequest(filters, before=before, limit=page_size)
    while True:
        with database.read() as connection:
            page = listed.page(connection, request, access)
        yield from page.rows
        if page.next is None:
            return
        request = replace(request, before=page.next)


def ids_in_order(
    database: Database, listed: ListDefinition[Any], filters: Filters, limit: int | None = None
) -> list[int]:
    """Return the ids of matching rows up to the newest at the call, oldest first."""
    with database.read() as connection:
        upper = listed.newest_id(connection)
    found: list[int] = []
    cursor, complete = 0, False
    while not complete and (limit is None or len(found) < limit):
        with database.read() as connection:
            page = listed.ids_after(connection, filters, UNLIMITED, cursor, upper, BUDGET)
        found += page.ids
        cursor, complete = page.cursor, page.complete
    return found[:limit]
