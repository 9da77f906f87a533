"""What a person is told of a message that cannot be applied as it stands."""

from collections.abc import Mapping
from typing import Final

from bridge.intake.addressing import (
    PATIENT_CONFLICT,
    MergedPatient,
    OrderOfAnother,
    TakenNumber,
)
from bridge.intake.reading import ContentGone, ContentUnreadable
from bridge.intake.remembering import OTHER_NAME
from bridge.intake.whereabouts import OTHER_PATIENT, MovedVisit
from bridge.observability.redaction import describe
from bridge.queue.states import Event, Failure
from bridge.queue.work import Claimed, Outcome

_CODES: Final[Mapping[type[Exception], str]] = {
    ContentGone: "content_missing",
    MergedPatient: "patient_merged",
    MovedVisit: OTHER_PATIENT,
    TakenNumber: OTHER_NAME,
    OrderOfAnother: PATIENT_CONFLICT,
}


def given_up(claimed: Claimed, error: Exception) -> Outcome:
    """Give the outcome of an attempt that ended so."""
    if isinstance(error, ContentUnreadable):  # the message is not lost: it is tried again
        return Outcome(
            claimed.message_id, Event.POSTPONED, code="content_unreadable", detail=error.code
        )
    code = _CODES.get(type(error), "not_readable")
    return Outcome(claimed.message_id, Event.GIVEN_UP, Failure.PERMANENT, code, describe(error))
