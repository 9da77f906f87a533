"""Storage: the C-STORE SCP for structured reports, dose reports and key objects (PS3.4 annex B)."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import structlog
from pydicom.dataset import Dataset
from pynetdicom import evt
from pynetdicom.events import Event
from pynetdicom.presentation import PresentationContext, build_context

from bridge.dicom.answers import AnswerCounter
from bridge.dicom.encoding import SYNTAXES
from bridge.dicom.objects import CLASSES, ObjectStore
from bridge.dicom.refusals import Refused
from bridge.dicom.server import Peer
from bridge.dicom.statuses import (
    OUT_OF_RESOURCES,
    SUCCESS,
)
from bridge.redaction import describe
from parsers.dicom_file import FileMeta


class StorageService:
    """The Storage SCP, as a service of the DICOM server."""

    name: Final = "store"
    contexts: Sequence[PresentationContext] = tuple(
        build_context(sop_class, [*SYNTAXES]) for sop_class in CLASSES
    )

    def __init__(self, objects: ObjectStore, answers: AnswerCounter) -> None:
        self._log = structlog.get_logger("dicom")
        self._objects = objects
        self._answers = answers
        self.handle: Mapping[Any, Callable[[Event, Peer], Any]] = {evt.EVT_C_STORE: self.store}

    def store(self, event: Event, peer: Peer) -> Dataset | int:
        """Answer a C-STORE; an object that is stored already is answered with success."""
        began, refused = time.monotonic(), None
        try:
            self._store(event, peer)
        except Refused as error:
            refused = error
        except Exception as error:  # noqa: BLE001  # there is always an answer, without values
            self._log.error("object not stored", error=describe(error))
            refused = Refused(OUT_OF_RESOURCES, "not stored: send it again")
        self._answers.count(
            peer.title,
            "C-STORE",
            f"{SUCCESS:04X}" if refused is None else refused.code,
            is_success=refused is None,
            began=began,
            address=peer.address,
        )
        return SUCCESS if refused is None else refused.data_set(has_element=True)

    def _store(self, event: Event, peer: Peer) -> None:
        request: Any = event.request
        meta = FileMeta(
            str(request.AffectedSOPClassUID),
            str(request.AffectedSOPInstanceUID or ""),
            str(event.context.transfer_syntax),
            peer.title,
        )
        body = event.encoded_dataset(include_meta=False)
        self._objects.store(meta, body, peer.settings.sites)
