"""
The content of DICOM objects, received and sent: attributes as text, and what a message is about.

Text and subjects contain patient data: show them to users who may read content only, and do not log
them.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from pydicom.datadict import dictionary_description, dictionary_has_tag
from pydicom.dataset import Dataset
from pydicom.multival import MultiValue
from pydicom.uid import UID
from sqlalchemy import Connection

from bridge.delivery.dicom_objects import read_documents
from bridge.orders.order import Order
from bridge.orders.received_objects import (
    OrderReference,
    ReceivedObject,
    read_object,
    step_identity,
)
from bridge.queue import queries
from bridge.store.records import order_index, patient_records
from config.dicom import DicomPeer
from mappings.inbound.definition import Subjects
from parsers.dicom_file import DicomLimits, is_dicom, read_file, read_meta

EVERY_SITE: Final = "*"
MAX_LINES: Final = 2000
"""Lines of the text of a data set."""
_MAX_VALUE: Final = 200  # characters
_MAX_DEPTH: Final = 12  # levels of sequences
_BINARY: Final = frozenset({"OB", "OD", "OF", "OL", "OV", "OW", "UN"})
_INDENT: Final = "  "
UNREADABLE: Final = "The data set cannot be read."


def text_of(payload: bytes) -> tuple[str, bool]:
    """
    Return the attributes of a DICOM file as text, one in a line, and whether there are more.

    Binary values are shown by their length.
    """
    try:
        meta, _ = read_meta(payload)
        head = (
            f"SOP class {meta.sop_class}",
            f"SOP instance {meta.sop_instance}",
            f"Transfer syntax {meta.transfer_syntax}",
            f"From {meta.sender}",
            "",
        )
        data_set = read_file(payload, DicomLimits(max_bytes=len(payload)))
        lines = list(islice(_lines(data_set, 0, _MAX_VALUE), MAX_LINES + 1))
    except Exception:  # noqa: BLE001  # pydicom raises arbitrary exceptions
        return UNREADABLE, False
    return "\n".join((*head, *lines[:MAX_LINES])), len(lines) > MAX_LINES


def text_of_documents(payload: bytes) -> str:
    """Return the objects of a delivery to a PACS as text, one attribute in a line."""
    parts = [
        "\n".join([UID(document.SOPClassUID).name, *_lines(document, 0, None)])
        for document in read_documents(payload)
    ]
    return "\n\n".join(parts)


def _lines(data_set: Dataset, depth: int, longest: int | None) -> Iterator[str]:
    """Yield attributes; `longest`: characters of a value, None for those that this service made."""
    for tag in sorted(data_set.keys()):
        known = dictionary_has_tag(tag)
        name = dictionary_description(tag) if known else "Private" if tag.is_private else "Unknown"
        try:
            element = data_set[tag]
            kind, value = element.VR, element.value
        except Exception:  # noqa: BLE001  # a malformed value
            yield f"{_INDENT * depth}{tag} {name}: not readable"
            continue
        start = f"{_INDENT * depth}{tag} {kind} {name}"
        if kind != "SQ":
            shown = _shown(kind, value, longest).replace("\n", f"\n{_INDENT * (depth + 2)}")
            yield f"{start}: {shown}"
            continue
        yield f"{start}: {len(value)} item{'' if len(value) == 1 else 's'}"
        for number, item in enumerate(value if depth < _MAX_DEPTH else (), start=1):
            yield f"{_INDENT * (depth + 1)}item {number}"
            yield from _lines(item, depth + 2, longest)


def _shown(kind: str, value: Any, longest: int | None) -> str:
    if kind in _BINARY:
        return f"{len(value or b'')} bytes"
    parts = value if isinstance(value, MultiValue) else [] if value is None else [value]
    text = "\\".join(map(str, islice(parts, longest))).replace("\r\n", "\n")
    cut = text if longest is None else text[: longest + 1]
    shown = "".join(sign if sign.isprintable() or sign == "\n" else " " for sign in cut)
    return shown if longest is None or len(shown) <= longest else f"{shown[:longest]}…"


def read_identity(payload: bytes) -> ReceivedObject | None:
    """Return what identifies patient and orders of a DICOM file; None for other payloads."""
    if not is_dicom(payload):
        return None
    try:
        return read_object(payload)
    except Exception:  # noqa: BLE001  # pydicom raises arbitrary exceptions
        return None


def read_whole(connection: Connection, payload: bytes) -> ReceivedObject | None:
    """As `read_identity`; a changed performed step has what the created one has."""
    received = read_identity(payload)
    if received is None or received.mrn or received.references:
        return received
    identity = step_identity(received.meta.sop_instance)
    created = queries.payload_with_identity(connection, identity)
    return read_identity(created or b"") or received


def subjects_of(connection: Connection, payload: bytes, peers: Collection[DicomPeer]) -> Subjects:
    """
    Return what a message is about: its orders, their sites, and its patient.

    Without a known order its sites are those of its sender. A changed performed step is about what
    the created one is about.
    """
    received = read_whole(connection, payload)
    if received is None:
        return Subjects()
    peer = next((peer for peer in peers if peer.ae_title == received.meta.sender), None)
    visible = [] if peer is None else peer.sites
    sites = order_index.sites(connection) if EVERY_SITE in visible else visible
    orders = _orders(connection, received, sites)
    named = {reference.accession for reference in received.references} - {""}
    return Subjects(
        frozenset({order.key.site for order in orders} or (() if EVERY_SITE in visible else sites)),
        frozenset({received.mrn} - {""}),
        frozenset(named | {order.key.accession for order in orders}),
    )


def _orders(
    connection: Connection, received: ReceivedObject, sites: Collection[str]
) -> list[Order]:
    """Return the orders of the patient that an object names."""
    mrns: Mapping[tuple[str, str], str] = patient_records.current_identifiers(
        connection, {(site, received.mrn) for site in sites if received.mrn}
    )
    own = {(site, mrn) for (site, _), mrn in mrns.items()}
    return [
        order
        for reference in received.references or (OrderReference(),)
        for order in order_index.find_named(
            connection, sites, reference.accession, reference.study_uid
        )
        if order.patient in own
    ]
