"""Replacements, parents and children, order numbers, and messages out of order."""

from itertools import permutations

import pytest

from tests.bridge.delivery.whole_bridge import Hospital
from tests.bridge.intake.messages import order_group, order_message


class TestReplacement:
    """RP, RU, RQ with RO."""

    async def test_one_for_two(self, hospital: Hospital) -> None:
        """N:M in one message, in any order of its groups."""
        await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
        await hospital.send(order_message(order_group("NW", "P2", "F2"), sent=2))
        new = order_group("RO", "P3", "F3", what="CT Body")
        await hospital.send(
            order_message(new, order_group("RU", "P1", "F1"), order_group("RU", "P2", "F2"), sent=3)
        )
        assert await hospital.descriptions() == {"F3": "CT Body"}

    @pytest.mark.parametrize("turned", [False, True])
    @pytest.mark.parametrize("numbers", [("P2", "F2"), ("P1", "F1")], ids=["new", "the same"])
    async def test_under_the_same_accession(
        self, hospital: Hospital, numbers: tuple[str, str], *, turned: bool
    ) -> None:
        await hospital.send(order_message(order_group("NW", "P1", "F1", accession="A1"), sent=1))
        groups = [
            order_group("RP", "P1", "F1", accession="A1"),
            order_group("RO", *numbers, accession="A1", what="MR Head"),
        ]
        await hospital.send(order_message(*(groups[::-1] if turned else groups), sent=2))
        assert await hospital.descriptions() == {"A1": "MR Head"}

    async def test_in_two_messages(self, hospital: Hospital) -> None:
        """RP alone removes the order. RO alone is a new order."""
        await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
        await hospital.send(order_message(order_group("RP", "P1", "F1"), sent=2))
        assert await hospital.descriptions() == {}
        await hospital.send(order_message(order_group("RO", "P2", "F2"), sent=2))
        assert await hospital.descriptions() == {"F2": "CT Head"}

    async def test_a_dictated_report_stays(self, hospital: Hospital) -> None:
        """A report of a replaced order stays, with an exception."""
        await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
        page = await hospital.page("F1")
        await page("save", text="Dictated.")
        await hospital.send(
            order_message(order_group("RP", "P1", "F1"), order_group("RO", "P2", "F2"), sent=2)
        )
        assert await hospital.report("F1") is not None
        assert await hospital.descriptions() == {"F2": "CT Head"}
        assert hospital.last_message() == ("done", "report_kept")


class TestFamilies:
    """PA and CH."""

    FAMILY = (
        order_group("PA", "P0", "F0"),
        order_group("CH", "P1", "F1", parent="P0^F0", what="Day 1"),
        order_group("CH", "P2", "F2", parent="P0^F0", what="Day 2"),
    )

    async def start(self, hospital: Hospital) -> None:
        """Send a parent, two children, a grandchild and an unrelated order, none linked."""
        await hospital.send(order_message(self.FAMILY[0], self.FAMILY[1], sent=1))
        await hospital.send(order_message(self.FAMILY[2], sent=1))
        await hospital.send(order_message(order_group("CH", "P3", "F3", parent="P2"), sent=2))
        await hospital.send(order_message(order_group("NW", "P9", "F9"), sent=2))
        assert set(await hospital.descriptions()) == {"F1", "F2", "F3", "F9"}

    @pytest.mark.parametrize("control", ["CA", "DC", "HD"])
    async def test_children_follow(self, hospital: Hospital, control: str) -> None:
        """Cancel, discontinue and hold of the parent apply to children and grandchildren."""
        await self.start(hospital)
        await hospital.send(order_message(order_group(control, "P0", "F0", what=""), sent=5))
        assert set(await hospital.descriptions()) == {"F9"}

    async def test_released_with_the_parent(self, hospital: Hospital) -> None:
        """A release restores held orders only."""
        await self.start(hospital)
        await hospital.send(order_message(order_group("CA", "P1", "F1", what=""), sent=4))
        await hospital.send(order_message(order_group("HD", "P0", "F0", what=""), sent=5))
        await hospital.send(order_message(order_group("RL", "P0", "F0", what=""), sent=6))
        found = await hospital.descriptions()
        assert set(found) - {"F0"} == {"F2", "F3", "F9"}
        assert found["F2"] == "Day 2"

    async def test_a_parent_that_is_an_order(self, hospital: Hospital) -> None:
        await hospital.send(order_message(order_group("NW", "P0", "F0"), sent=1))
        await hospital.send(order_message(order_group("NW", "P1", "F1", parent="^F0"), sent=1))
        await hospital.send(order_message(order_group("CA", "P0", what=""), sent=2))
        assert await hospital.descriptions() == {}

    async def test_other_patients_children_stay(self, hospital: Hospital) -> None:
        """Numbers are searched within one patient only."""
        await hospital.send(
            order_message(order_group("NW", "P1", "F1", parent="P0"), mrn="M2", name="O^O", sent=1)
        )
        await hospital.send(order_message(order_group("CA", "P0", "F0", what=""), sent=2))
        assert set(await hospital.descriptions()) == {"F1"}

    async def test_a_late_child_of_a_cancelled_parent(self, hospital: Hospital) -> None:
        """A child sent before the cancellation and received after it is not listed."""
        await hospital.send(order_message(order_group("CA", "P0", "F0", what=""), sent=5))
        await hospital.send(order_message(self.FAMILY[1], sent=4))
        await hospital.send(order_message(order_group("XO", "P1", "F1", parent="P0^F0"), sent=6))
        assert await hospital.descriptions() == {}
        await hospital.send(order_message(self.FAMILY[2], sent=7))
        assert set(await hospital.descriptions()) == {"F2"}

    @pytest.mark.parametrize("early", [True, False])
    async def test_children_of_a_replaced_parent_stay(
        self, hospital: Hospital, *, early: bool
    ) -> None:
        """Children of a replaced parent stay open, with an exception."""
        child = order_message(self.FAMILY[1], sent=2)
        replaced = order_message(
            order_group("RU", "P0", "F0"), order_group("RO", "P5", "F5"), sent=5
        )
        await hospital.send(order_message(order_group("NW", "P0", "F0"), sent=1))
        for message in (child, replaced) if early else (replaced, child):
            await hospital.send(message)
        assert hospital.last_message() == ("done", "parent_replaced")
        assert set(await hospital.descriptions()) == {"F1", "F5"}


class TestNumbers:
    """SN, NA, and messages with either number of an order."""

    async def test_a_number_assigned(self, hospital: Hospital) -> None:
        """NA assigns the filler number: one order, found by either number."""
        await hospital.send(order_message(order_group("SN", "P1"), sent=1))
        assert await hospital.descriptions() == {"P1": "CT Head"}
        await hospital.send(order_message(order_group("NA", "P1", "F1", what=""), sent=2))
        assert await hospital.descriptions() == {"P1": "CT Head"}
        assert hospital.rows("SELECT accession, placer, filler FROM bridge_order") == [
            ("P1", "P1", "F1")
        ]
        await hospital.send(order_message(order_group("XO", "", "F1", what="CT Neck"), sent=3))
        assert await hospital.descriptions() == {"P1": "CT Neck"}
        (echo,) = hospital.rows("SELECT echo FROM bridge_order")[0]
        assert "OBR" in echo
        await hospital.send(order_message(order_group("CA", "", "F1", what=""), sent=4))
        assert await hospital.descriptions() == {}

    async def test_a_cancel_by_the_placers_number(self, hospital: Hospital) -> None:
        """The placer number is sufficient without an accession."""
        await hospital.send(order_message(order_group("NW", "P1", "F1", accession="A1"), sent=1))
        await hospital.send(order_message(order_group("CA", "P1", what=""), sent=2))
        assert await hospital.descriptions() == {}

    async def test_a_number_of_several_orders(self, hospital: Hospital) -> None:
        """If the number is ambiguous, both orders stay, with an exception."""
        for accession in ("A1", "A2"):
            await hospital.send(order_message(order_group("NW", "P1", accession=accession), sent=1))
        await hospital.send(order_message(order_group("CA", "P1", what=""), sent=2))
        assert set(await hospital.descriptions()) == {"A1", "A2"}
        assert hospital.last_message() == ("done", "several_orders")

    async def test_other_fillers_are_other_orders(self, hospital: Hospital) -> None:
        """One placer number with two filler numbers is two examinations."""
        await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
        await hospital.send(order_message(order_group("NW", "P1", "F2"), sent=2))
        assert set(await hospital.descriptions()) == {"F1", "F2"}


def story_messages(number: int) -> dict[str, str]:
    numbers = (f"P{number}", f"F{number}")
    return {
        "NW": order_group("NW", *numbers, what="First"),
        "NW2": order_group("NW", *numbers, what="Again"),
        "XO": order_group("XO", *numbers, what="Second"),
        "XO2": order_group("XO", *numbers, what="Third"),
        "CA": order_group("CA", *numbers, status="CA"),
        "HD": order_group("HD", *numbers, status="HD", what=""),
        "RL": order_group("RL", *numbers, what=""),
    }


OUTCOMES: dict[tuple[str, ...], str | None] = {
    ("NW", "XO"): "Second",
    ("NW", "XO", "XO2"): "Third",
    ("NW", "CA"): None,
    ("NW", "XO", "CA"): None,
    ("NW", "CA", "NW2"): "Again",
    ("NW", "NW2"): "Again",
    ("NW", "HD", "RL"): "First",
    ("NW", "HD", "XO"): None,
}
ARRIVALS = [
    (events, permutation) for events in OUTCOMES for permutation in permutations(range(len(events)))
]


async def test_any_order_of_arrival(hospital: Hospital) -> None:
    for step in range(3):
        for number, (events, arrival) in enumerate(ARRIVALS):
            for place in arrival[step : step + 1]:
                one = story_messages(number)[events[place]]
                await hospital.hand_over(order_message(one, mrn=f"M{number}", sent=place))
        await hospital.applied()
    found = await hospital.descriptions()
    wrong = [
        (events, arrival)
        for number, (events, arrival) in enumerate(ARRIVALS)
        if found.get(f"F{number}") != OUTCOMES[events]
    ]
    assert not wrong


async def test_a_late_order_adds_missing_values(hospital: Hospital) -> None:
    """An order that arrives after its change adds missing values."""
    await hospital.send(order_message("ORC|XO|P1|F1\rOBR|1|P1|F1|X^New^L\r", sent=5))
    await hospital.send(order_message(order_group("NW", "P1", "F1", what="Old"), sent=1))
    assert await hospital.descriptions() == {"F1": "New"}
    (tags,) = hospital.rows("SELECT tags FROM bridge_order")[0]
    assert '"Modality": "CT"' in tags


async def test_examined(hospital: Hospital) -> None:
    """XO/CM of a held order makes it ready to read, because images exist."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    await hospital.send(order_message(order_group("HD", "P1", "F1"), sent=2))
    await hospital.send(order_message(order_group("XO", "P1", "F1", status="IP"), sent=3))
    assert await hospital.descriptions() == {}
    await hospital.send(
        order_message(order_group("XO", "P1", "F1", status="CM", what="Done"), sent=4)
    )
    assert await hospital.descriptions() == {"F1": "Done"}


async def test_an_examination_of_a_cancelled_order(hospital: Hospital) -> None:
    """An examination of a cancelled order has no effect, with an exception."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    await hospital.send(order_message(order_group("CA", "P1", "F1"), sent=2))
    await hospital.send(order_message(order_group("XO", "P1", "F1", status="CM"), sent=3))
    assert await hospital.descriptions() == {}
    assert hospital.last_message() == ("done", "examined_after_cancel")


async def test_a_cancellation_after_the_examination(hospital: Hospital) -> None:
    """A cancellation sent before the examination counts, with an exception."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    await hospital.send(order_message(order_group("XO", "P1", "F1", status="CM"), sent=9))
    await hospital.send(order_message(order_group("CA", "P1", "F1"), sent=5))
    assert await hospital.descriptions() == {}
    assert hospital.last_message() == ("done", "examined_after_cancel")


async def test_an_order_after_its_change_is_linked(hospital: Hospital) -> None:
    """An order that arrives after its change adds the study UID too."""
    study = "ZDS|1.2.3.4^A^Application^DICOM\r"
    await hospital.send(order_message(order_group("NW", "P1", "F1") + study, sent=1))
    await hospital.send(order_message(order_group("XO", "P2", "F2"), sent=5))
    await hospital.send(order_message(order_group("NW", "P2", "F2") + study, sent=2))
    record = await hospital.report("F2")
    assert record is not None
    assert [order.accession for order in record.orders] == ["F1", "F2"]


async def test_a_change_that_gives_another_accession(hospital: Hospital) -> None:
    """Both orders stay, with an exception."""
    await hospital.send(order_message(order_group("NW", "P1", "F1", accession="A1"), sent=1))
    await hospital.send(order_message(order_group("XO", "P1", "F1", accession="A9"), sent=2))
    assert set(await hospital.descriptions()) == {"A1", "A9"}
    assert hospital.last_message() == ("done", "other_accession")
    await hospital.send(order_message(order_group("XO", "P1", "F1", accession="A9"), sent=3))
    assert hospital.last_message() == ("done", "")
