"""
Storage commitment: the service that PACSs answer requests with, on associations of their own.

The request was made by the destination (PS3.4 annex J). Here the PACS is the SCP although it opens
the association, so it negotiates the role. An answer is stored before its status leaves.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pynetdicom import build_context, evt
from pynetdicom.events import Event
from pynetdicom.presentation import PresentationContext
from pynetdicom.sop_class import (  # type: ignore[attr-defined]  # the module makes its names
    StorageCommitmentPushModel,
)

from bridge.dicom.encoding import SYNTAXES
from bridge.dicom.server import Peer
from bridge.metrics import Metrics
from bridge.queue.commitments import Commitments


def _build_context() -> PresentationContext:
    context = build_context(StorageCommitmentPushModel, [*SYNTAXES])
    context.scu_role = context.scp_role = True  # the roles that the PACS may have
    return context


class CommitmentService:
    """Takes N-EVENT-REPORTs, as a service of the DICOM port."""

    name: Final = "commitment"
    contexts: Sequence[PresentationContext] = (_build_context(),)

    def __init__(self, commitments: Commitments, metrics: Metrics) -> None:
        self._commitments = commitments
        self._metrics = metrics
        self.handle: Mapping[Any, Callable[[Event, Peer], Any]] = {
            evt.EVT_N_EVENT_REPORT: self.take
        }

    def take(self, event: Event, peer: Peer) -> tuple[int, None]:
        """Store the answer to a request."""
        status = self._commitments.take(event.event_information)
        self._metrics.dicom_requests.labels(peer.title, "N-EVENT-REPORT", f"{status:04X}").inc()
        return status, None
