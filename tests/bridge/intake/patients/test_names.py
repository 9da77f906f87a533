"""Spelling variants, other names, and several forms of the name of a patient."""

from itertools import permutations

import pytest

from bridge.intake.receive.listener_policy import ListenerPolicy
from mappings.compiler import DEFINITIONS, compile_sources, read_folder
from mappings.inbound.definition import InboundMapping
from tests.bridge.delivery.fixtures import SITE, inbound
from tests.bridge.delivery.whole_bridge import Hospital
from tests.bridge.intake.messages import adt, order_group, order_message

KNOWN = "MÜLLER-DOE^JANE^QUINN"


def decide(hospital: Hospital, policy: str) -> None:
    """Set `patient_names` in the orders definition."""
    text = f"include: orders.yaml\npatient_names: {policy}"
    made = compile_sources({**read_folder(DEFINITIONS), "orders2.yaml": text}, "orders2")
    assert isinstance(made, InboundMapping)
    hospital.use(ListenerPolicy("ris", (made, inbound()[1]), SITE))


async def names(hospital: Hospital) -> dict[str, str]:
    rows = (await hospital.client.worklist(SITE)).items
    return {order["Accession"]: order["PatientName"] for row in rows for order in row["orders"]}


VARIANTS = [
    *("MÜLLER-DOE^JANE", "MÜLLER-DOE^JANE^Q", "MUELLER-DOE^JANE^QUINN", "MULLER DOE^J"),
    *("MÜLLER-DOE^JANE^QUINN^^DR", "MÜLLER-DOE^JANE^QUINN^JR", "müller-doe^jane"),
]


@pytest.mark.parametrize("known_first", [True, False])
async def test_a_spelling_variant(hospital: Hospital, *, known_first: bool) -> None:
    """The order is applied with the known name, in any order of arrival."""
    for number, other in enumerate(VARIANTS):
        first, second = (KNOWN, other) if known_first else (other, KNOWN)
        for control, order, name in (("NW", 1, first), ("NW", 2, second), ("XO", 2, second)):
            one = order_group(control, f"P{number}-{order}", f"F{number}-{order}")
            await hospital.send(order_message(one, mrn=f"M{number}", name=name))
            assert hospital.states() == {"done"}, other
    found = await names(hospital)
    for number, other in enumerate(VARIANTS):
        assert found[f"F{number}-2"].casefold() == found[f"F{number}-1"].casefold(), other
    assert {state for (state,) in hospital.rows("SELECT state FROM bridge_order")} == {"ordered"}


OTHERS = [
    ("MÜLLER-DOE^JOAN^QUINN", "19700101"),
    ("MEIER-DOE^JANE^QUINN", "19700101"),
    ("MÜLLER-DOE^JANE^ROSE", "19700101"),
    ("MÜLLER-DOE^JANE", "19700102"),  # another date of birth
    ("MÜLLER-DOE", "19700101"),
]


async def test_another_name_is_parked(hospital: Hospital) -> None:
    """Another name parks the order. A correction applies it."""
    for number, (other, birth) in enumerate(OTHERS):
        mrn = f"M{number}"
        known, new = (order_group("NW", f"P{number}-{n}", f"F{number}-{n}") for n in (1, 2))
        await hospital.send(order_message(known, mrn=mrn, name=KNOWN))
        message = order_message(new, mrn=mrn, name=other).replace(b"19700101", birth.encode())
        await hospital.send(message)
        assert hospital.rows("SELECT code FROM message WHERE state = 'parked'") == [
            ("patient_name_mismatch",)
        ], other
        await hospital.send(adt("A08", mrn, name=other))
        assert hospital.states() == {"done"}, other


async def test_twins_under_one_number(hospital: Hospital) -> None:
    """An initial is no spelling variant if the sex differs."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), name="DOE^JANE"))
    await hospital.send(
        order_message(order_group("NW", "P2", "F2"), name="DOE^J").replace(b"|F\r", b"|M\r")
    )
    assert hospital.states() == {"done", "parked"}


@pytest.mark.parametrize(
    ("policy", "other", "states"),
    [
        ("exact", "MÜLLER-DOE^JANE", {"done", "parked"}),
        ("compatible", "MÜLLER-DOE^JANE", {"done"}),
        ("compatible", "ROE^JANE", {"done", "parked"}),
        ("update", "ROE^JANE", {"done"}),
    ],
)
async def test_the_definition_decides(
    hospital: Hospital, policy: str, other: str, states: set[str]
) -> None:
    """`patient_names` decides: `update` renames the patient everywhere."""
    decide(hospital, policy)
    await hospital.send(order_message(order_group("NW", "P1", "F1"), name=KNOWN))
    await hospital.send(order_message(order_group("NW", "P2", "F2"), name=other))
    assert hospital.states() == states
    if policy == "update":
        assert set((await names(hospital)).values()) == {other}


SAME_ORDER = [
    *(("XO", "SC"), ("SC", "CM"), ("NW", ""), ("NW", "SC"), ("XX", ""), ("XR", ""), ("SN", "")),
    *(("NA", ""), ("RO", ""), ("SC", "IP"), ("CH", "")),
]
"""Order control codes and statuses of messages after which the order is on the worklist."""

SPELLINGS = [
    *("MÜLLER-DOE^JANE", "MÜLLER-DOE^JANE^^^DR", "MUELLER-DOE^JANE^Q.", "müller-doe^jane^quinn"),
    *("MULLER DOE^JANE^^JR", "MÜLLER-DOE^J"),
]


async def prepare(hospital: Hospital, before: str) -> None:
    if "adt" in before:
        await hospital.send(adt("A28", "M1", name=KNOWN))
    await hospital.send(order_message(order_group("NW", "P1", "F1"), name=KNOWN))
    if "order" in before:
        await hospital.send(order_message(order_group("NW", "P2", "F2"), name=KNOWN))


@pytest.mark.parametrize("before", ["", "adt", "order", "adt order"])
async def test_a_change_of_an_order_with_another_spelling(hospital: Hospital, before: str) -> None:
    """The change is applied with the known name, whatever else is known of the patient."""
    await prepare(hospital, before)
    for number, (control, status) in enumerate(SAME_ORDER):
        spelling, what = SPELLINGS[number % len(SPELLINGS)], f"CT {number}"
        group = order_group(control, "P1", "F1", status=status, what=what)
        await hospital.send(order_message(group, name=spelling))
        assert hospital.last_message()[0] == "done", (control, status, spelling)
        assert (await hospital.descriptions())["F1"] == what
    assert set((await names(hospital)).values()) == {KNOWN}


@pytest.mark.parametrize("kind", ["OMG^O19^OMG_O19", "OMI^O23^OMI_O23"])
async def test_other_messages_with_another_spelling(hospital: Hospital, kind: str) -> None:
    """OMG and OMI are applied as ORM is."""
    for control in ("NW", "XO"):
        name = KNOWN if control == "NW" else "MÜLLER-DOE^JANE"
        message = order_message(order_group(control, "P1", "F1", what=control), name=name)
        await hospital.send(message.replace(b"ORM^O01", kind.encode()).replace(b"2.3.1", b"2.5.1"))
    assert await hospital.descriptions() == {"F1": "XO"}
    assert await names(hospital) == {"F1": KNOWN}


@pytest.mark.parametrize(
    ("closing", "spelling"), [*zip(["CA", "DC", "HD", "RP"], SPELLINGS[1:], strict=False)]
)
async def test_an_order_is_closed_and_opened_with_another_spelling(
    hospital: Hospital, closing: str, spelling: str
) -> None:
    """The order is taken off the worklist. Ordered or released again, it has the known name."""
    await prepare(hospital, "")
    await hospital.send(order_message(order_group(closing, "P1", "F1"), name=spelling))
    assert await names(hospital) == {}
    opening = "RL" if closing == "HD" else "NW"
    await hospital.send(order_message(order_group(opening, "P1", "F1"), name=spelling))
    assert hospital.states() == {"done"}
    assert await names(hospital) == {"F1": KNOWN}


@pytest.mark.parametrize("control", ["XO", "SC", "NW", "CA", "HD", "DC", "RP"])
async def test_a_change_of_an_order_with_another_name(hospital: Hospital, control: str) -> None:
    """The change is parked, and the order stays as it is."""
    await prepare(hospital, "")
    for other, birth in OTHERS:
        message = order_message(order_group(control, "P1", "F1", what="other"), name=other)
        await hospital.send(message.replace(b"19700101", birth.encode()))
        assert hospital.last_message() == ("parked", "patient_name_mismatch"), other
    assert await names(hospital) == {"F1": KNOWN}
    assert await hospital.descriptions() == {"F1": "CT Head"}


@pytest.mark.parametrize("control", ["XO", "RL", "CA"])
async def test_a_message_about_a_held_order_with_another_name(
    hospital: Hospital, control: str
) -> None:
    """A held order keeps its name, too, and is released with it."""
    await prepare(hospital, "")
    await hospital.send(order_message(order_group("HD", "P1", "F1"), name=KNOWN))
    await hospital.send(order_message(order_group(control, "P1", "F1"), name="ROE^JOAN"))
    assert hospital.last_message() == ("parked", "patient_name_mismatch")
    await hospital.send(order_message(order_group("RL", "P1", "F1"), name="MÜLLER-DOE^JANE"))
    assert await names(hospital) == {"F1": KNOWN}


async def test_a_year_of_birth_contradicts_no_day_of_that_year(hospital: Hospital) -> None:
    """A spelling with only the year of birth is the same person's."""
    await prepare(hospital, "")
    change = order_message(order_group("XO", "P1", "F1"), name="MÜLLER-DOE^JANE")
    await hospital.send(change.replace(b"19700101", b"1970"))
    assert hospital.states() == {"done"}
    assert await names(hospital) == {"F1": KNOWN}


FORMS = ("Yamada^Tarou^^^^^L^A", "山田^太郎^^^^^L^I", "やまだ^たろう^^^^^L^P")
PERSON = "Yamada^Tarou=山田^太郎=やまだ^たろう"


def message(number: str, *forms: str, control: str = "NW") -> bytes:
    """Build an order whose PID-5 has these forms."""
    group = order_group(control, "P" + number, "F" + number, what=control)
    text = order_message(group, name="~".join(forms)).decode()
    return text.replace("|P|2.3.1\r", "|P|2.5.1||||||UNICODE UTF-8\r", 1).encode()


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
        assert "F0" in [order["Accession"] for row in found for order in row["orders"]], text


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
