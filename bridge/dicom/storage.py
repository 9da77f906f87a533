"""Storage: the C-STORE SCP for structured reports, dose reports and key objects (PS3.4 annex B)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import structlog
from pydicom.dataset import Dataset
from pynetdicom import evt
from pynetdicom.events import Event, EventType
from pynetdicom.presentation import PresentationContext, build_context

from bridge.dicom.objects import CLASSES, SYNTAXES, ObjectStore
from bridge.dicom.received_log import Sender
from bridge.dicom.refusals import Refused, Status
from bridge.redaction import describe
from parsers.dicom_file import FileMeta


class StorageService:
    """The Storage SCP, as a service of the DICOM server."""

    name: Final = "store"
    contexts: Sequence[PresentationContext] = tuple(
        build_context(sop_class, [*SYNTAXES]) for sop_class in CLASSES
    )

    def __init__(self, objects: ObjectStore) -> None:
        self._log = structlog.get_logger("dicom")
        self._objects = objects
        self.handle: Mapping[EventType, Callable[[Event, Sender], Any]] = {
            evt.EVT_C_STORE: self.store
        }

    def store(self, event: Event, peer: Sender) -> Dataset | int:
        """Answer a C-STORE; an object that is stored already is answered with success."""
        try:
            self._store(event, peer)
        except Refused as refused:
            self._objects.count(refused.status)
            return refused.data_set(has_element=True)
        except Exception as error:  # noqa: BLE001  # there is always an answer, without values
            self._log.error("object not stored", error=describe(error))
            self._objects.count(Status.OUT_OF_RESOURCES)
            return Refused(Status.OUT_OF_RESOURCES, "not stored: send it again").data_set()
        self._objects.count(Status.SUCCESS)
        return int(Status.SUCCESS)

    def _store(self, event: Event, peer: Sender) -> None:
        request: Any = event.request
        if request.AffectedSOPClassUID != event.context.abstract_syntax:
            raise Refused(Status.NOT_THE_SOP_CLASS, "not that of the context", "SOPClassUID")
        meta = FileMeta(
            str(request.AffectedSOPClassUID),
            str(request.AffectedSOPInstanceUID or ""),
            str(event.context.transfer_syntax),
            peer.title,
        )
        body = event.encoded_dataset(include_meta=False)
        self._objects.store(meta, body, peer.settings.sites)
