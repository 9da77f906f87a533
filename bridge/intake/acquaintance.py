"""
Whether a message is about an identifier that was merged, asked before it is acknowledged.

For listeners that redirect nobody: they answer AE 204. Reads in a thread, as the validator does,
what has been applied by then; a merge that still waits in the queue is found when its turn comes.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import structlog

from bridge.intake.addressing import is_about_merged
from bridge.intake.batches import looks_like_batch, open_batch
from bridge.intake.listening import Listening
from bridge.intake.routing import Router
from bridge.observability.redaction import describe
from bridge.store import merged_patients
from bridge.store.database import Database
from bridge.store.errors import StoreError
from mappings.events import Issue, OrderEvent
from mappings.hl7.header import peek
from mappings.hl7.message import Message
from mappings.hl7.refusals import UnknownKey
from mappings.scope import Defaults
from mllp.framing import Frame

PLACE = "PID-3"


class Acquaintance:
    """Knows which messages of one listener are about merged patients; as a `Validator` knows."""

    def __init__(self, listening: Listening, database: Database) -> None:
        """Read messages as the listener does."""
        self._log = structlog.get_logger("intake").bind(listener=listening.name)
        self._database = database
        self._known: dict[bytes, bool] = {}
        self.adopt(listening)

    def adopt(self, listening: Listening) -> None:
        """Read with other definitions from now on."""
        self._listening = listening
        self._router = Router(listening)

    def prepare(self, frame: Frame) -> list[bytes]:
        """Look at the messages of a frame; give which, for `forget`. Blocking."""
        frames = open_batch(frame) if looks_like_batch(frame.payload) else [frame]
        payloads = [each.payload for each in frames]
        for payload in payloads:
            self._known[payload] = self._is_merged(payload)
        return payloads

    def forget(self, payloads: Sequence[bytes]) -> None:
        """Drop what was prepared, once it has been examined."""
        for payload in payloads:
            self._known.pop(payload, None)

    def issues(self, payload: bytes) -> tuple[Issue, ...]:
        """Give what the examination adds."""
        if not self._known.get(payload, False):
            return ()
        refusal = UnknownKey(PLACE)
        return (Issue(PLACE, refusal.error_code.value, refusal.text, refusal=refusal),)

    def _is_merged(self, payload: bytes) -> bool:
        try:
            events = self._events(payload)
            patients = {(each.site, each.mrn) for each in events}
            with self._database.read() as connection:
                return is_about_merged(events, merged_patients.survivors(connection, patients))
        except StoreError as error:  # whether it can be stored is seen soon enough
            self._log.warning("merged patients not looked up", error=describe(error))
        except Exception:  # noqa: BLE001  # what is wrong with the message, the judge will say
            return False
        return False

    def _events(self, payload: bytes) -> Sequence[OrderEvent]:
        header, listening = peek(payload), self._listening
        message = Message.parse(payload, fallback=listening.charset, head=header)
        defaults = Defaults(listening.site, listening.time_zone, datetime.now(UTC))
        return self._router.route(header).apply(message, defaults)
