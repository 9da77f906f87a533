"""
What the bridge learned of reports, and what it queues for it, in one transaction.

Messages are composed before the transaction, which only compares what they were composed from with
what is known by then: where that differs, their turn in the outbox composes them. So no rule, hook
or template runs while a write is open. Blocking but for `learned`: call it from a thread. Both
change feed and status poll end here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from bridge.contract import split_cursor
from bridge.delivery.ahead import Ahead, Drafts, Question, question
from bridge.delivery.announcing import News, deliveries, news_of
from bridge.delivery.destinations import Destination
from bridge.delivery.seen import Seen, remembered, seen_asked
from bridge.engine_client.models import Change, ChangePage, OrderKey
from bridge.executors import Threads
from bridge.queue.deliveries import ClaimedDelivery, Release
from bridge.queue.outbox import Outbox
from bridge.store import concerns, order_saving
from bridge.store.answers import Answer, Words, run_all
from bridge.store.concerns import Subject
from bridge.store.database import Database
from bridge.store.order_index import Key
from bridge.store.steps import among, ask, plain, said, say
from mappings.results import ResultEvent

_CURSOR = plain("SELECT cursor, marked, replaced_at FROM feed_cursor WHERE feed = :feed")

_ADVANCE = plain(
    """
    INSERT INTO feed_cursor (feed, cursor, marked) VALUES (:feed, :cursor, :marked)
    ON CONFLICT (feed) DO UPDATE SET cursor = excluded.cursor, marked = excluded.marked
    WHERE feed_cursor.cursor < excluded.cursor
    """
)
_RESTART = plain(
    """
    UPDATE feed_cursor SET cursor = 0, marked = NULL, replaced_at = :now
    WHERE feed = :feed AND cursor = :cursor
    """
)
_QUEUED = among(
    """
    SELECT release_key, release_at FROM delivery
    WHERE destination = :destination AND release_key IN :keys
    """,
    "keys",
    "text",
)


@dataclass(frozen=True, slots=True)
class Learned:
    """What a page of the feed brought: how many deliveries, and those that are already ours."""

    queued: int
    claimed: Sequence[ClaimedDelivery] = ()


@dataclass(frozen=True, slots=True)
class _Owed:
    """What follows from changes, given what was known before."""

    known: Mapping[Key, Seen]
    releases: Sequence[Release]
    seen: Sequence[Seen]


class Learner:
    """Writes down what happened to reports, and what is owed for it."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        destinations: Sequence[Destination],
        clock: Callable[[], int],
        ahead: Ahead | None = None,
        rooms: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """
        Take the bridge's database; `clock` is in milliseconds.

        `ahead` writes what can be written at once, and `rooms` says how many of that each
        destination would take this moment.
        """
        self.database = database
        self.clock = clock
        self._outbox = outbox
        self._destinations = tuple(destinations)
        self._ahead = ahead
        self._rooms = rooms
        self._replaced: set[str] = set()  # feeds that were replaced once

    def adopt(self, destinations: Sequence[Destination]) -> None:
        """Go on with other definitions (a mapping was activated)."""
        self._destinations = tuple(destinations)

    def cursor(self, feed: str) -> int:
        """Give where a feed was read to; 0 at first."""
        with self.database.look() as connection:
            row = say(connection, _CURSOR, feed=feed).first()
        if row is None:
            return 0
        if row.replaced_at is not None:
            self._replaced.add(feed)
        # An older release leaves the mark of an earlier cursor behind.
        marked = row.marked is not None and split_cursor(row.marked)[0] == row.cursor
        return int(row.marked if marked else row.cursor)

    def restart(self, feed: str, refused: int, code: str) -> None:
        """
        Read a feed again from its beginning: the service refused our cursor with this code.

        Notes it among what needs attention, unless another node has done both already.
        """
        position = split_cursor(refused)[0]
        with self.database.write() as connection:
            self.database.serialize(connection, f"feed {feed}")
            now = self.clock()
            if say(connection, _RESTART, feed=feed, cursor=position, now=now).rowcount:
                concerns.note(connection, Subject.FEED, [(now, code)], now)

    async def learned(self, feed: str, page: ChangePage) -> Learned:
        """As `learn`, for an event loop."""
        return await Threads.DELIVERY.run(self.learn, feed, page)

    def learn(self, feed: str, page: ChangePage) -> Learned:
        """Take a page of the feed in; give what it brought."""
        changes = [change for change in page.changes if change.record.orders]
        ahead = self._write_ahead(changes)
        with self.database.write() as connection:
            known = self._begun(connection, feed, changes)
            if ahead is not None and ahead[0].known == known:
                owed, messages = ahead[0], ahead[1].still(connection)
            else:
                owed, messages = self._owed(changes, known), {}
            releases = owed.releases
            if feed in self._replaced:
                releases = _renamed(connection, releases)
            queued, claimed = self._outbox.place(
                connection, releases, self.clock(), messages, self._rooms()
            )
            position = split_cursor(page.cursor)[0]
            marked = None if position == page.cursor else page.cursor
            advance = said(connection, _ADVANCE, feed=feed, cursor=position, marked=marked)
            run_all(connection, [*remembered(connection, owed.seen), advance])
        return Learned(queued, claimed)

    def _begun(
        self, connection: Connection, feed: str, changes: Sequence[Change]
    ) -> dict[Key, Seen]:
        """Take our turn with a feed, note the reports of orders; give what was known."""
        reports = {_key(k): each.record.report_id for each in changes for k in each.record.orders}
        words = [
            *self.database.serialized([f"feed {feed}"]),
            *order_saving.reports_set(connection, reports),
        ]
        return _asked(connection, changes, None, words)[0]

    def _write_ahead(self, changes: Sequence[Change]) -> tuple[_Owed, Drafts] | None:
        """Compose what a page says the words of; None where it says none."""
        if self._ahead is None or all(each.said is None for each in changes):
            return None
        with self.database.read() as connection:
            asked = question(connection, changes)
            known, answers = _asked(connection, changes, asked)
        if asked is None:
            return None
        owed = self._owed(changes, known)
        prospect = self._ahead.look(asked, answers, owed.releases)
        return owed, self._ahead.drafts(prospect, self._destinations)

    def _owed(self, changes: Sequence[Change], before: Mapping[Key, Seen]) -> _Owed:
        known, released = dict(before), dict[Key, Seen]()
        releases: list[Release] = []
        for change in changes:
            anchor = _anchor(change)
            seen = known.get(anchor)
            same = seen is not None and seen.report_id == change.record.report_id
            addenda = seen.addenda if seen is not None and same else 0
            news = news_of(change, addenda)
            if change.release is not None:
                known[anchor] = released[anchor] = _after_release(change, anchor, news, addenda)
            releases += deliveries(news, self._destinations)
        return _Owed(before, releases, list(released.values()))

    def queue(self, connection: Connection, news: Sequence[News]) -> int:
        """Queue what is owed for news, within the caller's transaction; give how many were new."""
        return self._outbox.enqueue(connection, deliveries(news, self._destinations), self.clock())


def _renamed(connection: Connection, releases: Sequence[Release]) -> list[Release]:
    """
    Give releases of a replaced feed names of their own where others have theirs already.

    A restored service numbers its releases again: what is signed again has the name of what was
    delivered before, and another moment. What is read a second time has the same moment.
    """
    queued: dict[tuple[str, str], int] = {}
    for name in {each.destination for each in releases}:
        keys = sorted({each.release_key for each in releases if each.destination == name})
        for row in ask(connection, _QUEUED, keys, destination=name):
            queued[name, row.release_key] = row.release_at
    return [
        each
        if queued.get((each.destination, each.release_key), each.release_at) == each.release_at
        else replace(each, release_key=f"{each.release_key}:{each.release_at}")
        for each in releases
    ]


def _asked(
    connection: Connection,
    changes: Sequence[Change],
    further: Question | None,
    before: Sequence[Words] = (),
) -> tuple[dict[Key, Seen], Sequence[Answer]]:
    """Ask, after what goes `before`, what was known, and what else is wanted: at one go."""
    seen = seen_asked(connection, [_anchor(change) for change in changes])
    words = [*before, *seen.words]
    answers = run_all(connection, [*words, *(further.words if further else ())])
    return seen.read(answers[len(before) : len(words)]), answers[len(words) :]


def _after_release(change: Change, anchor: Key, news: Sequence[News], addenda: int) -> Seen:
    retracted = any(each.event is ResultEvent.RETRACTION for each in news)
    out = max((each.addenda for each in news), default=addenda)
    return Seen(
        anchor,
        change.record.report_id,
        change.record.status.value,
        final=not retracted,
        addenda=0 if retracted else out,
        changed_at=change.at,
    )


def _anchor(change: Change) -> Key:
    return _key(change.record.orders[0])


def _key(order: OrderKey) -> Key:
    return Key(order.site, order.mrn, order.accession)
