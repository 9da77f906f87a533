"""A bridge whose DICOM services a modality can reach."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bridge.dicom.answers import AnswerCounter
from bridge.dicom.objects import ObjectStore
from bridge.dicom.performed import PerformedSteps
from bridge.dicom.received_log import ReceivedLog
from bridge.dicom.storage import StorageService
from bridge.store.database import Database
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.dicom.modality import Modality, serving

MAX_SIZE = 2**20


@pytest.fixture
async def hospital(tmp_path: Path, database: Database) -> AsyncIterator[Hospital]:
    """A bridge with a real engine and no destination."""
    async with open_hospital(tmp_path, database) as made:
        yield made


@pytest.fixture
def received(hospital: Hospital) -> Iterator[ReceivedLog]:
    """The log that stores what modalities send."""
    log = ReceivedLog(hospital.database)
    yield log
    log.close()


@pytest.fixture
def modality(hospital: Hospital, received: ReceivedLog) -> Iterator[Modality]:
    """A modality that may report performed steps and store objects."""
    answers = AnswerCounter(hospital.metrics, lambda *_: None, lambda *_: None)
    steps = PerformedSteps(received, MAX_SIZE, answers)
    storage = StorageService(ObjectStore(received, MAX_SIZE), answers)
    with serving(steps, storage) as port:
        yield Modality(port)
