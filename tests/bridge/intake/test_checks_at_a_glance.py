"""What is known at a glance never hides a message from a check that wants to see it."""

from bridge.intake.validating import ValidatedDefinition
from mappings.events import Issue
from mappings.hl7.header import peek
from mappings.hl7.message import Message
from mappings.scope import Defaults
from tests.bridge.intake.desk import LISTENING, NOW, order


class Asking:
    """A check that wants to see messages or not, and finds nothing."""

    def __init__(self, *, asks: bool) -> None:
        self._asks = asks

    def asks(self, payload: bytes) -> bool:
        """Say what it was made to say."""
        return self._asks

    def issues(self, payload: bytes) -> tuple[Issue, ...]:
        """Find nothing."""
        return ()


def test_a_check_that_asks_gets_the_message() -> None:
    """And one that does not lets the definition answer."""
    definition, raw = LISTENING.definitions[0], order("G1", mrn="G1")
    for control_id in ("G-1", "G0"):  # a form is known at second sight
        definition.examine(Message.parse(order(control_id)), Defaults("SITE1", "UTC", NOW))
    header = peek(raw)
    known = definition.glance(raw, header, "SITE1")
    assert known == "SITE1|G1"
    for asks, said in ((True, ""), (False, known)):
        checked = ValidatedDefinition(definition, Asking(asks=asks))
        assert checked.glance(raw, header, "SITE1") == said
