"""One name in alphabetic, ideographic and phonetic form, as PID-5 repeats it."""

from itertools import permutations

import pytest

from tests.bridge.delivery.fixtures import SITE
from tests.bridge.delivery.whole_bridge import Hospital
from tests.bridge.intake.messages import adt, order_group, order_message

FORMS = ("Yamada^Tarou^^^^^L^A", "山田^太郎^^^^^L^I", "やまだ^たろう^^^^^L^P")
PERSON = "Yamada^Tarou=山田^太郎=やまだ^たろう"


def message(number: str, *forms: str, control: str = "NW") -> bytes:
    """Build an order whose PID-5 has these forms."""
    group = order_group(control, "P" + number, "F" + number, what=control)
    text = order_message(group, name="~".join(forms)).decode()
    return text.replace("|P|2.3.1\r", "|P|2.5.1||||||UNICODE UTF-8\r", 1).encode()


async def names(hospital: Hospital) -> dict[str, str]:
    rows = (await hospital.client.worklist(SITE)).items
    return {each["Accession"]: each["PatientName"] for row in rows for each in row["orders"]}


async def test_the_order_of_the_forms_makes_no_difference(hospital: Hospital) -> None:
    """Each sequence of the repetitions is the same name of the same patient."""
    for number, forms in enumerate(permutations(FORMS)):
        await hospital.send(message(str(number), *forms))
    assert hospital.states() == {"done"}
    assert await names(hospital) == {f"F{number}": PERSON for number in range(6)}


@pytest.mark.parametrize("known_first", [True, False])
async def test_orders_with_some_of_the_forms(hospital: Hospital, *, known_first: bool) -> None:
    some = [FORMS[:1], FORMS[1:2], FORMS[2:], FORMS[1:], FORMS[:2], ("YAMADA^TAROU",)]
    if known_first:
        await hospital.send(message("0", *FORMS))
    for number, forms in enumerate(some[: None if known_first else 1], start=1):
        await hospital.send(message(str(number), *forms))
    if not known_first:
        await hospital.send(message("0", *FORMS))
    assert hospital.states() == {"done"}
    assert (await names(hospital))["F0"] == PERSON
    for text in ("Yamada", "山田", "やまだ"):
        found = (await hospital.client.worklist(SITE, text=text)).items
        assert "F0" in [each["Accession"] for row in found for each in row["orders"]], text


async def test_a_change_of_the_order(hospital: Hospital) -> None:
    """A change with fewer forms keeps them all. A change with further forms adds them."""
    await hospital.send(message("1", FORMS[0]))
    await hospital.send(message("1", *FORMS[::-1], control="XO"))
    assert await names(hospital) == {"F1": PERSON}
    for forms in (FORMS[:1], FORMS[1:2], FORMS[1:]):
        await hospital.send(message("1", *forms, control="XO"))
        assert await names(hospital) == {"F1": PERSON}
    await hospital.send(message("1", "田中^花子^^^^^L^I", control="XO"))
    assert hospital.last_message() == ("parked", "patient_name_mismatch")


async def test_a_correction_has_all_forms(hospital: Hospital) -> None:
    """ADT sets the forms of all orders of the patient."""
    await hospital.send(message("1", FORMS[0]))
    await hospital.send(adt("A08", "M1", name="~".join(FORMS[::-1])))
    await hospital.send(message("2", FORMS[1]))
    assert hospital.states() == {"done"}
    assert (await names(hospital))["F1"] == PERSON


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_one_form_in_each_order(hospital: Hospital, order: tuple[int, ...]) -> None:
    """Names in different scripts are one patient's if number and date of birth are the same."""
    for number, form in enumerate(order):
        await hospital.send(message(str(number), FORMS[form]))
    await hospital.send(message("0", FORMS[order[1]], control="XO"))
    assert hospital.states() == {"done"}
    assert len(await names(hospital)) == len(FORMS)


async def test_another_script_and_another_birth_date(hospital: Hospital) -> None:
    """Without the same date of birth a name that cannot be compared is another person's."""
    await hospital.send(message("1", FORMS[0]))
    other = message("2", FORMS[1]).replace(b"|19700101|", b"|19800101|")
    assert b"|19800101|" in other
    await hospital.send(other)
    assert hospital.last_message() == ("parked", "patient_name_mismatch")
