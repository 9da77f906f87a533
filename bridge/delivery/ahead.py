"""
Write messages before their turn: what the feed releases, when it says the words along with it.

What cannot be written now is left to its turn, whatever the reason: it is told there. Says what to
ask the database, asks nothing itself but `still`, queues nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from bridge.delivery.announcing import key_of, orders_of
from bridge.delivery.composer import Composer, Known
from bridge.delivery.destinations import Destination
from bridge.delivery.history import (
    Standing,
    Told,
    standing,
    standing_asked,
    standing_read,
    told_already,
)
from bridge.engine_client.models import Change, Said
from bridge.queue.deliveries import Draft, Release
from bridge.store import order_index
from bridge.store.answers import Answer, Words
from bridge.store.order_index import Key
from mappings.results import ResultEvent

WRITTEN = frozenset({ResultEvent.FINAL.value, ResultEvent.ADDENDUM.value})
"""What is written ahead: events that bring words, and that nothing takes back unseen."""

_Standing = dict[tuple[str, str], list[Standing]]


@dataclass(frozen=True, slots=True)
class Drafts:
    """Messages by destination and release key, and the deliveries that they were written after."""

    messages: Mapping[tuple[str, str], Draft] = field(default_factory=dict)
    _after: _Standing = field(default_factory=dict)
    _reports: Sequence[str] = ()

    def still(self, connection: Connection) -> Mapping[tuple[str, str], Draft]:
        """Give them if nothing has come between, in the transaction that queues them."""
        if self._reports and standing(connection, self._reports) != self._after:
            return {}
        return self.messages


@dataclass(frozen=True, slots=True)
class Question:
    """What has to be known of the reports that changes say the words of; to be run with others."""

    said: Mapping[str, Said]
    reports: Sequence[str]
    orders: frozenset[Key]
    words: Sequence[Words]


@dataclass(frozen=True, slots=True)
class Prospect:
    """What can be written, each with what is known and what the report says; and after what."""

    due: Sequence[tuple[Release, Known, Said]]
    after: _Standing
    reports: Sequence[str]


def question(connection: Connection, changes: Sequence[Change]) -> Question | None:
    """Give what is to be asked; None where nothing is said in words."""
    telling = [each for each in changes if each.said is not None]
    if not telling:
        return None
    said = {each.record.report_id: each.said for each in telling if each.said is not None}
    reports = sorted(said)
    orders = frozenset(_key(tags) for each in telling for tags in orders_of(each))
    words = [standing_asked(connection, reports), *order_index.told_asked(connection, orders)]
    return Question(said, reports, orders, words)


def _key(tags: Mapping[str, Any]) -> Key:
    order = key_of(tags)
    return Key(order.site, order.mrn, order.accession)


class Ahead:
    """Writes for all destinations."""

    def __init__(self, composer: Composer) -> None:
        self._composer = composer

    def look(
        self, asked: Question, answers: Sequence[Answer], releases: Sequence[Release]
    ) -> Prospect:
        """Find what is known to be next for its receiver, of what was asked about."""
        after = standing_read(answers[0])
        found = order_index.told_read(answers[1:], asked.orders)
        due = _due(releases, {name: list(rows) for name, rows in after.items()}, asked.said)
        return Prospect(
            [
                (
                    release,
                    Known([found.get(_key(tags)) for tags in release.orders["orders"]], told),
                    asked.said[release.report_id],
                )
                for release, told in due
            ],
            after,
            asked.reports,
        )

    def drafts(self, prospect: Prospect, destinations: Sequence[Destination]) -> Drafts:
        """Write it."""
        named = {each.name: each for each in destinations}
        written = (
            (release, self._draft(release, known, named[release.destination], said))
            for release, known, said in prospect.due
        )
        messages = {
            (release.destination, release.release_key): draft
            for release, draft in written
            if draft is not None
        }
        return Drafts(messages, prospect.after, prospect.reports)

    def _draft(
        self, release: Release, known: Known, destination: Destination, said: Said
    ) -> Draft | None:
        try:
            payload, name = self._composer.write(release, known, destination, said)
        except Exception:  # noqa: BLE001  # its turn will tell
            return None
        return Draft(payload, name, destination.edition)


def _due(
    releases: Sequence[Release], before: _Standing, said: Mapping[str, Said]
) -> list[tuple[Release, list[Told]]]:
    """Choose what can be written, with what its receiver was told until then."""
    due = []
    for release in releases:
        rows = before.setdefault((release.destination, release.report_id), [])
        known = any(each.release_key == release.release_key for each in rows)
        if release.event in WRITTEN and release.report_id in said and not known:
            told = told_already(rows, release.release_key)
            if told is not None:
                due.append((release, told))
        rows.append(Standing(release.release_key, release.event))
    return due
