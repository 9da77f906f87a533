"""dicomSR of linked orders: shared while they are linked, with their own order afterwards."""

import pytest

from tests.bridge.engine.http.engine_service import READER
from tests.conformance.engine.cases import Case, ok
from tests.conformance.engine.test_dicom_sr import Files, basic, files

LINKED = ("A1", "A2", "A3")


def _sent(text: str, instance: str) -> Files:
    return files(basic(text, SOPInstanceUID=instance))


def _orders(case: Case, *names: str) -> None:
    for place, name in enumerate(names):
        case.order(name)
        ok(case.post("update-dicomsr", name, dicomSR=_sent(f"Of {name}.", f"1.2.{place + 1}")))


def _first_text(case: Case, name: str) -> str:
    """Open the report of an order; return its first text."""
    ok(case.service.launch(READER, accession=name))
    return case.content(name).replace("Finding: ", "")


@pytest.mark.parametrize(
    ("removed", "texts"),
    [
        (["A2"], {"A1": "Of A1.\n\nOf A3.", "A2": "Of A2."}),
        (["A1"], {"A1": "Of A1.", "A2": "Of A2.\n\nOf A3."}),
        (["A3", "A1"], {"A1": "Of A1.", "A2": "Of A2.", "A3": "Of A3."}),
        (["A3", "A1", "A2"], {"A1": "Of A1.", "A2": "Of A2.", "A3": "Of A3."}),
    ],
)
def test_an_unlinked_order_keeps_its_files(
    case: Case, removed: list[str], texts: dict[str, str]
) -> None:
    """unlink-orders 3: each report has the texts of the files of its own orders."""
    _orders(case, *LINKED)
    ok(case.orders("link-orders", *LINKED))
    records = ok(case.orders("unlink-orders", *removed)).json()
    assert not any(each["hasContent"] for each in records)
    assert {name: _first_text(case, name) for name in texts} == texts


def test_a_file_of_two_orders_stays_with_both(case: Case) -> None:
    """Their linked report contains the SR once; after unlinking, both reports contain it."""
    for name in ("A1", "A2"):
        case.order(name)
        ok(case.post("update-dicomsr", name, dicomSR=_sent("Of both.", "1.2.9")))
    ok(case.orders("link-orders", "A1", "A2"))
    ok(case.post("update-dicomsr", "A2", dicomSR=_sent("Of A2.", "1.2.2"), mode="append"))
    ok(case.orders("unlink-orders", "A2"))
    assert _first_text(case, "A1") == "Of both."
    assert _first_text(case, "A2") == "Of both.\n\nOf A2."


@pytest.mark.parametrize("again", [False, True])
def test_an_order_is_registered_with_its_files(case: Case, again: bool) -> None:
    """registerOrder: the first text of the report comes from the files of the order."""
    case.order("A1")
    if again:
        case.order("A2")
    body = {"lazyLaunch": True, "registerOrder": True, "dicomSR": _sent("Of A2.", "1.2.2")}
    ok(case.service.launch("service", accession="A2", **body))
    assert case.record("A2")["hasContent"] is False
    ok(case.orders("link-orders", "A1", "A2"))
    ok(case.orders("unlink-orders", "A2"))
    assert (_first_text(case, "A1"), _first_text(case, "A2")) == ("", "Of A2.")


def test_a_merge_keeps_the_files_of_both_orders(case: Case) -> None:
    """patient/merge of one accession with two identifiers."""
    _orders(case, "A1")
    ok(
        case.service.launch(
            "service", accession="A1", mrn="P2", lazyLaunch=True, registerOrder=True
        )
    )
    merge = {"SiteID": "SITE1", "PatientMRN": "P2", "PriorPatientMRN": "P1"}
    ok(case.service.post("patient/merge", merge))
    assert _first_text(case, "A1") == "Of A1."
