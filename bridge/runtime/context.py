"""What the parts of a process share."""

from dataclasses import dataclass
from typing import Any

from bridge.metrics import Metrics
from bridge.monitoring.tracing import Tracer
from bridge.runtime.schedule import Schedule
from bridge.store.database import Database
from bridge.store.records.unmapped_codes import UnmappedCodeCounter
from bridge.workers.offload import Offload
from config import Settings


@dataclass(frozen=True, slots=True)
class Process:
    """
    A process that receives, applies or delivers messages of one database.

    `node` begins the names under which it claims work. `offload` parses large messages.
    """

    settings: Settings
    database: Database
    metrics: Metrics
    schedule: Schedule
    reactor: Any
    node: str
    offload: Offload
    tally: UnmappedCodeCounter
    tracer: Tracer | None
