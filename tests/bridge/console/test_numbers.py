"""Numbers of a message, and who may what."""

import pytest

from bridge.console.errors import PermissionDenied
from bridge.console.message_index import NumberKind, number_hash, read_numbers
from bridge.console.message_view import segment_tree
from bridge.console.permissions import ROLE_PERMISSIONS, ConsoleRole, Grant, Permission

MESSAGE = (
    b"MSH|^~\\&|RIS|HOSP|BRIDGE|RAD|20260102||ORM^O01|C1|P|2.5.1\r"
    b"PID|1||M1^^^HOSP^MR~N2^^^NHS||DOE^JANE\r"
    b"ORC|NW|P1|F1\rOBR|1|P1|F1|71250^CT\rOBR|2|P2|F2|71260^CT|||||||||||||||A2\r"
)


def test_all_numbers_of_a_message_are_found() -> None:
    """Every repetition of the patient's ids, every order of the message."""
    found = read_numbers(MESSAGE)
    assert found.control == {"C1"}
    assert found.patient == {"M1", "N2"}
    assert found.order == {"P1", "F1", "P2", "F2", "A2"}


def test_what_is_no_message_has_no_numbers() -> None:
    """It is stored all the same, and found by its time and state."""
    assert list(read_numbers(b"not HL7").hashes()) == []
    assert segment_tree(b"not HL7") == []


def test_a_number_of_a_patient_is_no_number_of_an_order() -> None:
    """The same digits as another kind of number are another key; blanks around are none."""
    assert len({number_hash(kind, "4711") for kind in NumberKind}) == len(NumberKind)
    assert number_hash(NumberKind.ORDER, " 4711 ") == number_hash(NumberKind.ORDER, "4711")


def test_the_tree_names_each_place() -> None:
    """Repetitions and components as the mapping language writes them."""
    pid = segment_tree(MESSAGE)[1]
    parts = {each["place"]: each["text"] for field in pid["fields"] for each in field["parts"]}
    assert parts["PID-3(2).1"] == "N2"
    assert parts["PID-5.2"] == "JANE"
    assert segment_tree(MESSAGE)[4]["place"] == "OBR[2]"


@pytest.mark.parametrize("role", ConsoleRole)
def test_no_role_alone_reads_bodies(role: ConsoleRole) -> None:
    """Whatever the role, what messages say is granted by itself."""
    assert Permission.BODIES not in ROLE_PERMISSIONS[role]
    with pytest.raises(PermissionDenied):
        Grant("a@b.test", role).require(Permission.BODIES)
    Grant("a@b.test", role, bodies=True).require(Permission.BODIES)


def test_a_viewer_finds_no_patients_and_changes_nothing() -> None:
    """A viewer sees, and that is all."""
    assert ROLE_PERMISSIONS[ConsoleRole.VIEWER] == {Permission.SEE}
