"""The timeline of a delivery says in words what a PACS answered about storage commitment."""

import pytest

from bridge.admin.orders.steps import delivery_steps
from bridge.queue.attempts import AttemptKind
from bridge.queue.commitments import COMMITTED, NOT_COMMITTED, REFUSED
from bridge.queue.listing_rows import DeliveryRow
from bridge.queue.states import QueueState


@pytest.mark.parametrize(
    ("code", "tone", "words"),
    [
        (COMMITTED, "", "pacs confirmed that it keeps the objects"),
        (NOT_COMMITTED, "red", "pacs does not keep all objects that it stored"),
        (REFUSED, "red", "pacs refused the request for storage commitment"),
        ("AE", "red", "pacs refused it after accepting it: AE"),
    ],
)
def test_an_answer_after_the_objects_were_stored(code: str, tone: str, words: str) -> None:
    row = DeliveryRow(
        7, "pacs", "report", "key", "final", QueueState.DONE, "C7", 1, 0, "", "dicom", "0000",
        1, 1, 2, 3, 3,
    )  # fmt: skip
    answer = {"at": 4, "kind": AttemptKind.REPLY.value, "code": code, "reason": "0110"}
    *_, step = sorted(delivery_steps([row], {7: [answer]}), key=lambda step: step.at)
    assert (step.text, step.detail, step.tone) == (words, "0110", tone)
