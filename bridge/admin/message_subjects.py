"""Sites, patients and orders of a stored message, read by the definition that mapped it."""

from datetime import UTC, datetime

from bridge.console.ownership import MessageOrigin
from bridge.intake.receive.definition_offload import DefinitionSource, subjects
from bridge.store.database import Database
from bridge.wiring.active_definitions import active_sources, version_finder
from bridge.wiring.active_settings import ActiveSettings
from bridge.workers.host import WorkerError
from bridge.workers.offload import LARGE, Offload
from config import Settings
from mappings.compiler import compile_sources
from mappings.hl7.message import Message
from mappings.hl7.refusals import MessageRefusal
from mappings.inbound.definition import InboundMapping, Subjects
from mappings.language.diagnostics import MappingError
from mappings.language.scope import ListenerDefaults


class MessageSubjects:
    """`bridge.console.ownership.SubjectReader`; remembers the definitions that it has compiled."""

    def __init__(
        self, settings: Settings, database: Database, offload: Offload | None = None
    ) -> None:
        """`offload` reads large messages in a worker process."""
        self._offload = offload
        self._settings = settings
        self._database = database
        self._present = ActiveSettings(settings, database)
        self._recall = version_finder(database)
        self._instead: dict[tuple[str, str], InboundMapping | None] = {}

    def __call__(self, origin: MessageOrigin) -> Subjects:
        """Return the subjects of a message; none if its listener was removed."""
        known = self._present().listener
        listener = next((each for each in known if each.name == origin.listener), None)
        if listener is None:
            return Subjects()
        own = Subjects(frozenset({listener.site}) - {""})
        mapping = self.definition(origin.mapping, origin.version)
        if mapping is None:
            return own
        received = datetime.fromtimestamp(origin.received_at / 1000, UTC)
        defaults = ListenerDefaults(listener.site, listener.time_zone, received)
        try:
            return self._read(mapping, origin.payload, listener.charset, defaults)
        except (MessageRefusal, WorkerError):
            return own

    def _read(
        self, mapping: InboundMapping, payload: bytes, charset: str, defaults: ListenerDefaults
    ) -> Subjects:
        if self._offload is None or len(payload) < LARGE:
            return mapping.subjects(Message.parse(payload, fallback=charset), defaults)
        given = DefinitionSource.of(mapping), charset, defaults
        found: Subjects = self._offload.run(subjects, payload, *given)
        return found

    def definition(self, name: str, version: str) -> InboundMapping | None:
        """Return the version that read a message, or the active version if it is not kept."""
        if not name:
            return None
        return self._recall(name, version) or self._of_now(name, version)

    def _of_now(self, name: str, version: str) -> InboundMapping | None:
        """Return the active version in place of one that is not kept; cached."""
        asked = (name, version)
        if asked not in self._instead:
            try:
                made = compile_sources(active_sources(self._settings, self._database)(name), name)
            except MappingError:
                return None
            self._instead[asked] = made if isinstance(made, InboundMapping) else None
        return self._instead[asked]
