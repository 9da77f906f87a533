"""What the bridge knows of merged patients, asked before a message is acknowledged.

A merge that leads back to where it began is AE 205; where a listener redirects nobody, a message
about an identifier that was merged is AE 204; so is one that names another patient for a known
order, where a listener refuses that. Knows what has been applied by then; a merge that
still waits in the queue is found when its turn comes. Reads the database: for the thread in which
messages are judged aside.
"""

import re
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import structlog
from sqlalchemy import Connection

from bridge.intake.process.addressing import is_about_merged, orders_of_others, surviving
from bridge.intake.process.order_rules import ORDERING, ORDERS
from bridge.intake.process.planning import key_of
from bridge.intake.receive.listener import Listening, Merged, PatientConflict
from bridge.intake.receive.verdict import Router
from bridge.redaction import describe
from bridge.store.database import Database
from bridge.store.errors import StoreError
from bridge.store.records import merged_patients, order_index, visit_transfers
from mappings.hl7.header import peek
from mappings.hl7.refusals import DuplicateKeyIdentifier, MessageRefusal, UnknownKeyIdentifier
from mappings.inbound.events import OrderAction, OrderEvent
from mappings.language.diagnostics import Issue
from mappings.language.scope import ListenerDefaults

_MERGE = b"MRG"
_CHANGE = re.compile(rb"[\r\n]ORC[^\r\n](?!NW)")
_SLICE = 256 * 2**10  # bytes that are searched at once: some 50 µs
_BREATH = 0.0002  # seconds: who waits for the interpreter has it between two slices


class Acquaintance:
    """Knows what is wrong with the patients of one listener's messages; a `Check`."""

    def __init__(self, listening: Listening, database: Database) -> None:
        """Read messages as the listener does."""
        self._log = structlog.get_logger("intake").bind(listener=listening.name)
        self._database = database
        self.adopt(listening)

    def adopt(self, listening: Listening) -> None:
        """Read with other definitions from now on."""
        self._listening = listening
        self._router = Router(listening)
        self._refuses = listening.merged is Merged.REFUSE
        self._refuses_conflicts = listening.patient_conflict is PatientConflict.REFUSE
        self._latest = (b"", self._refuses)

    def asks(self, payload: bytes) -> bool:
        """Whether there is anything to look up."""
        latest, answer = self._latest  # each message is asked about twice in a row
        if latest is not payload:
            answer = self._refuses or _has_merge(payload)
            answer |= self._refuses_conflicts and _has_change(payload)
            self._latest = payload, answer
        return answer

    def issues(self, payload: bytes) -> tuple[Issue, ...]:
        """Give what the examination adds. Blocking, where there is anything to look up."""
        if not self.asks(payload):
            return ()
        try:
            found = self._refusals(self._events(payload))
        except StoreError as error:  # whether it can be stored is seen soon enough
            self._log.warning("merged patients not looked up", error=describe(error))
            return ()
        except Exception:  # noqa: BLE001  # what is wrong with the message, the judge will say
            return ()
        return tuple(Issue(e.place, e.error_code.value, e.text, refusal=e) for e in found)

    def _refusals(self, events: Sequence[OrderEvent]) -> list[MessageRefusal]:
        patients = {(each.site, each.mrn) for each in events}
        with self._database.read() as connection:
            survivors, moves = visit_transfers.find_merges_and_transfers(connection, patients)
            if (
                self._refuses_conflicts
                and not moves
                and self._has_conflict(connection, [surviving(each, survivors) for each in events])
            ):
                return [UnknownKeyIdentifier("PID-3")]
        if not survivors:  # nearly always
            return []
        if self._refuses and is_about_merged(events, survivors):
            return [UnknownKeyIdentifier("PID-3")]
        return [DuplicateKeyIdentifier("MRG-1")] if _leads_back(events, survivors) else []

    def _has_conflict(self, connection: Connection, events: Sequence[OrderEvent]) -> bool:
        """Tell whether events, other than new orders, name orders of other patients."""
        asked = [each for each in events if each.action in ORDERS - ORDERING]
        index, others = order_index.find_with_others(connection, map(key_of, asked))
        return any(orders_of_others(each, index, others) for each in asked)

    def _events(self, payload: bytes) -> Sequence[OrderEvent]:
        header, listening = peek(payload), self._listening
        defaults = ListenerDefaults(listening.site, listening.time_zone, datetime.now(UTC))
        return self._router.route(header).read(payload, listening.charset, defaults)


def _has_merge(payload: bytes) -> bool:
    """Look for the word, in slices: others have their turns between them."""
    if len(payload) <= _SLICE:  # nearly always
        return _MERGE in payload
    for end in range(_SLICE, len(payload) + _SLICE, _SLICE):
        if payload.find(_MERGE, end - _SLICE, end + len(_MERGE) - 1) >= 0:
            return True
        time.sleep(_BREATH)  # on a thread: so large a message is judged on one
    return False


def _has_change(payload: bytes) -> bool:
    """Tell whether a message has an order group that is no plain new order, or is large."""
    return len(payload) > _SLICE or _CHANGE.search(payload) is not None


def _leads_back(events: Iterable[OrderEvent], survivors: merged_patients.Survivors) -> bool:
    return any(
        each.action is OrderAction.PATIENT_MERGE
        and survivors.get((each.site, each.mrn)) == each.prior_mrn
        for each in events
    )
