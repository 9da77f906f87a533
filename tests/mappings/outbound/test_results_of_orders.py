"""The result of each order is a valid message."""

from dataclasses import replace

import pytest

from mappings.hl7.message import Message
from mappings.outbound.results import ResultEvent, ResultOrder
from tests.mappings.results import CONTEXT, ORDERS, SHIPPED_RESULTS, rendered, results, valid


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.tags["Accession"])
class TestEveryOrder:
    """Three parsers read the result of each order alike."""

    @pytest.mark.parametrize("event", [*sorted(SHIPPED_RESULTS.events), ResultEvent.ORDER_STATUS])
    def test_structure(self, order: ResultOrder, event: ResultEvent) -> None:
        """The result passes hl7apy's structural validation."""
        mapping = SHIPPED_RESULTS if event in SHIPPED_RESULTS.events else results(name="status")
        context = replace(CONTEXT, event=event, orders=(order,), report_status="Draft")
        assert valid(mapping.render(context))

    def test_identity(self, order: ResultOrder) -> None:
        """Patient, accession and numbers are those of the order."""
        message = rendered(replace(CONTEXT, orders=(order,)))
        assert order.tags["PatientMRN"] in message.values("PID-3.1")
        accession = (message.value("OBR-18"), message.value("OBR-3.1"), message.value("OBR-20"))
        assert order.tags["Accession"] in accession
        assert message.value("ORC-2.1") == order.placer


@pytest.mark.parametrize(
    ("sent", "exam_time", "returned"),
    [
        ("20260302080000+0100", "202603020730", "202603020730+0100"),
        ("20260302080000-0330", "202603020730+0200", "202603020730+0200"),
        ("20260302080000-0330", "202603020730", "202603020730-0330"),
        ("20260302080000+0100", "20260302", "20260302"),
        ("20260302080000", "202603020730", "202603020730"),
    ],
)
def test_times_without_an_offset(sent: str, exam_time: str, returned: str) -> None:
    """Times of the order have the offset of its MSH-7, or none if configured."""
    echo = (f"MSH|^~\\&|RIS|H|B|R|{sent}||ORM^O01|1|P|2.5.1", f"OBR|1|P|F|1^CT|||{exam_time}")
    context = replace(CONTEXT, orders=(replace(CONTEXT.orders[0], echo=echo),))
    assert rendered(context).value("OBR-7") == returned
    local = Message.parse(results("times: local").render(context))
    assert local.value("OBR-7") == exam_time


def test_copies_to() -> None:
    """OBR-28 is repeated with repetitions and authorities, for all values of `echo`."""
    copies = "44^Copy^Carl^^^^^^AUTH&1.2.3&ISO~45^Other^Olga"
    echo = ("MSH|^~\\&|RIS|H|B|R|2026||ORM^O01|1|P|2.5.1", f"OBR|1|P|F|1^CT{'|' * 24}{copies}")
    raw = SHIPPED_RESULTS.render(replace(CONTEXT, orders=(replace(CONTEXT.orders[0], echo=echo),)))
    assert valid(raw)
    assert copies.encode() in raw.split(b"\rOBR|")[1].split(b"|")[27:28]
