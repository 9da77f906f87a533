"""
Bugs that can be built into the product, to show that the simulation finds them.

Each one is a context manager that changes one rule of the product and restores it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields, replace
from itertools import count
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

from bridge.delivery import composer, reply_policy
from bridge.delivery.preparation import Preparation
from bridge.delivery.reply_policy import PolicyDecision, ReplyKind, decide
from bridge.queue.claims import Lease, Settlement
from bridge.queue.deliveries import ClaimedDelivery
from bridge.queue.inbox import Inbox
from bridge.queue.statements import INBOX, OUTBOX, LaneStatements
from bridge.queue.states import QueueEvent
from bridge.store.postgresql.dedicated_connections import Heartbeat
from bridge.store.statements import KeyStatement


@contextmanager
def _statements(name: str, change: Callable[[str], str]) -> Iterator[None]:
    before = [(item, getattr(item, name)) for item in (INBOX, OUTBOX)]
    assert name in {field.name for field in fields(LaneStatements)}
    for item, statement in before:
        if isinstance(statement, KeyStatement):
            changed: Any = replace(statement, sqlite=change(statement.sqlite))
        else:
            changed = change(statement)
        assert changed != statement
        object.__setattr__(item, name, changed)
    try:
        yield
    finally:
        for item, statement in before:
            object.__setattr__(item, name, statement)


def _settle_earlier_attempts() -> AbstractContextManager[object]:
    return patch.object(
        Settlement, "is_about", lambda self, stored_at, _: self.stored_at in {None, stored_at}
    )


@contextmanager
def _settle_without_owner() -> Iterator[None]:
    """Compare neither the owner nor the number of a claim: each hides the lack of the other."""
    without = _statements("held", lambda sql: sql.replace("owner = :owner", ":owner <> ''"))
    with without, _settle_earlier_attempts():
        yield


def _settle_later_rows() -> AbstractContextManager[object]:
    return patch.object(Settlement, "is_about", lambda *_: True)


def _claim_out_of_order() -> AbstractContextManager[object]:
    return _statements(
        "blockers",
        lambda sql: sql.replace("message_id < m.id", "message_id < 0").replace(
            "delivery_id < m.id", "delivery_id < 0"
        ),
    )


def _recover_too_early() -> AbstractContextManager[object]:
    return _statements("overdue", lambda sql: sql.replace("< :now", "< :now + 10000"))


def _act_after_a_freeze() -> AbstractContextManager[object]:
    return patch.object(Lease, "is_held", property(lambda _: True))


def _act_without_heartbeat() -> AbstractContextManager[object]:
    return patch.object(Heartbeat, "session", lambda _: 1)


def _claim_soon_after_a_failover() -> AbstractContextManager[object]:
    begin = Heartbeat.begin_session
    return patch.object(Heartbeat, "begin_session", lambda heartbeat, _: begin(heartbeat))


def _leave_future_retries() -> AbstractContextManager[object]:
    return patch.object(Inbox, "correct_due_times", lambda *_: 0)


@contextmanager
def _fresh_control_ids() -> Iterator[None]:
    numbers = count(1)

    def unstored(
        _: Preparation,
        messages: Mapping[int, tuple[bytes, str]],
        _of: Mapping[int, ClaimedDelivery],
    ) -> dict[int, bytes]:
        return {message: payload for message, (payload, _) in messages.items()}

    with (
        patch.object(Preparation, "_store", unstored),
        patch.object(composer, "control_id", lambda *_: f"ID{next(numbers)}"),
    ):
        yield


def _count_silence_as_accepted() -> AbstractContextManager[object]:
    def accepting(
        reply: ReplyKind, replies: Mapping[str, str], attempts: int, detail: str = ""
    ) -> PolicyDecision:
        if reply is ReplyKind.SILENCE:
            return PolicyDecision(QueueEvent.ACCEPTED, None)
        return decide(reply, replies, attempts, detail)

    return patch.object(reply_policy, "decide", accepting)


BUGS: Mapping[str, tuple[str, Callable[[], AbstractContextManager[object]]]] = MappingProxyType(
    {
        "settle-without-owner": ("intake", _settle_without_owner),
        "settle-later-rows": ("intake", _settle_later_rows),
        "settle-earlier-attempts": ("intake", _settle_earlier_attempts),
        "claim-out-of-order": ("intake", _claim_out_of_order),
        "recover-too-early": ("intake", _recover_too_early),
        "act-after-a-freeze": ("intake", _act_after_a_freeze),
        "leave-future-retries": ("intake", _leave_future_retries),
        "fresh-control-ids": ("delivery", _fresh_control_ids),
        "count-silence-as-accepted": ("delivery", _count_silence_as_accepted),
        "act-without-heartbeat": ("cluster", _act_without_heartbeat),
        "claim-soon-after-a-failover": ("cluster", _claim_soon_after_a_failover),
    }
)
"""Bugs by name: the story that finds it, and the change."""


def names() -> Sequence[str]:
    return list(BUGS)
