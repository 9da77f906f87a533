"""Outcomes of messages that could not be applied: try again or park."""

from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.states import QueueEvent

MAX_AMBIGUOUS_ATTEMPTS = 12
"""Attempts with an unknown result, after which a message is parked."""

UNSAVED_RETRY_MS = 5_000
"""Milliseconds until a message is tried again whose changes could not be stored."""


def failure_outcome(claimed: ClaimedMessage, failure: EngineFailure, now: int) -> MessageOutcome:
    """
    Return the outcome after a failed call.

    Transient: try again without limit. Ambiguous: try again with a limit, because the message
    itself may cause the failure. Permanent: park.
    """
    wait = failure.retry_after
    return _outcome(
        claimed,
        failure.failure,
        failure.code,
        failure.call,
        None if wait is None else now + round(wait * 1000),
    )


def unsaved_outcome(claimed: ClaimedMessage, now: int) -> MessageOutcome:
    """Return the outcome if the engine has the orders but the changes cannot be stored."""
    return _outcome(
        claimed, FailureKind.AMBIGUOUS, "not_remembered", retry_at=now + UNSAVED_RETRY_MS
    )


def unread_outcome(claimed: ClaimedMessage) -> MessageOutcome:
    """Return the outcome if the worker process failed: the message itself may be the cause."""
    return _outcome(claimed, FailureKind.AMBIGUOUS, "not_read")


def _outcome(
    claimed: ClaimedMessage,
    failure: FailureKind,
    code: str,
    detail: str = "",
    retry_at: int | None = None,
) -> MessageOutcome:
    doubts = claimed.ambiguous_attempts + (failure is FailureKind.AMBIGUOUS)
    is_final = failure is FailureKind.PERMANENT or doubts >= MAX_AMBIGUOUS_ATTEMPTS
    event = QueueEvent.GIVEN_UP if is_final else QueueEvent.POSTPONED
    # A replay of a parked message starts to count again.
    return MessageOutcome(
        claimed.message_id,
        event,
        failure,
        code,
        detail,
        retry_at,
        ambiguous_attempts=0 if is_final else doubts,
    )
