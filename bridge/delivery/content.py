"""
Content of a message in the form that mappings take: the orders' values and the report's texts.

Pure. The composer decides what is sent to whom.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from bridge.engine_client.models import Export, ExportedText, Person
from bridge.store.records.order_index import IndexedOrder
from mappings.inbound.echo import procedures_of
from mappings.outbound.results import WITHDRAWALS, Addendum, ResultEvent, ResultOrder, Signer

IDENTITY = ("PatientName", "PatientBirthDate", "PatientSex", "PatientAge", "Race", "Ethnicity")
"""What a merge says anew of a patient, beside the MRN."""

WITHDRAWN = "This report has been withdrawn."
"""Stands for the text of a retracted report: what is in the editor by now is a draft."""


def orders_of(
    tags: Mapping[str, Any], index: IndexedOrder | None, survivor: str = ""
) -> list[ResultOrder]:
    """
    Join what the service says of an order with what its sender said; the service is newer.

    But for who the patient is, where she was merged since: `survivor` is her MRN then. An order of
    several procedures answers for each of them.
    """
    said = dict(index.tags) if index else {}
    joined = {**said, **{tag: value for tag, value in tags.items() if value not in ("", None)}}
    if survivor:
        joined |= {tag: said[tag] for tag in IDENTITY if said.get(tag)} | {"PatientMRN": survivor}
    metadata = joined.pop("Metadata", None) or {}
    order = ResultOrder(
        tags={tag: str(value) for tag, value in joined.items()},
        metadata=metadata,
        placer=index.placer if index else "",
        filler=index.filler if index else "",
        echo=index.echo if index else (),
    )
    head, parts = procedures_of(order.echo, "")
    if not parts:
        return [order]
    first, *others = [replace(order, echo=(*head, *each.lines)) for each in parts]
    return [first, *(replace(each, placer="", filler="") for each in others)]


def texts_of(event: ResultEvent, export: Export | None, addenda: int) -> dict[str, Any]:
    """Give the text, its signer and so many of its addenda; of a withdrawal what it says."""
    if event in WITHDRAWALS:
        return {"report_text": WITHDRAWN, "addenda": (Addendum(WITHDRAWN),) * addenda}
    if export is None:
        return {}
    return {
        "report_text": export.report.content,
        "signed_at": _moment(export.report.signed_at),
        "signed_by": _signer(export.report.signed_by),
        "addenda": tuple(_addendum(each) for each in export.addenda[:addenda]),
    }


def _addendum(text: ExportedText) -> Addendum:
    return Addendum(text.content, _moment(text.signed_at), _signer(text.signed_by))


def _signer(person: Person | None) -> Signer:
    return Signer(person.name, person.email) if person else Signer()


def _moment(text: str | None) -> datetime | None:
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else None
