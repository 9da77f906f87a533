"""What a PACS must know: the specification of a destination that gets DICOM objects."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from pydicom.dataelem import DataElement
from pydicom.dataset import Dataset
from pydicom.uid import UID

from bridge.admin.messages.dicom_content import text_of_documents
from bridge.admin.specification.model import (
    DefinitionUsed,
    ExampleMessage,
    Fact,
    FieldSpecification,
    MessageSpecification,
    SegmentSpecification,
    Specification,
    Usage,
)
from bridge.delivery.destination_settings import pacs_documents
from bridge.delivery.dicom_objects import read_documents, sent_objects, write_documents
from bridge.delivery.errors import CompositionError
from bridge.delivery.reply_policy import DEFAULTS, ReplyKind
from config.quantities import DicomAddress
from config.sections import DestinationDicom, DestinationSettings
from mappings.outbound.results import WITHDRAWALS, ResultContext, ResultEvent
from mappings.outbound.style import TextLayout

_STUDY: Final = "2.25.1"
"""The study of a made-up order without one."""
_LONGEST_EXAMPLE: Final = 60

Example = tuple[ResultEvent, bytes]


def pacs_specification(
    section: DestinationSettings,
    used: Sequence[DefinitionUsed],
    purposes: Sequence[tuple[ResultEvent, str]],
    layout: TextLayout,
    contexts: Sequence[ResultContext],
    *,
    with_address: bool,
) -> Specification:
    """
    Return the specification of a PACS.

    `contexts` are those of a made-up report, one for each event. `layout` cuts its text.
    """
    examples = list(_examples(section, layout, contexts))
    by_event = dict(examples)
    objects = [data for _, payload in examples for data in read_documents(payload)]
    return Specification(
        kind="destination",
        name=section.name,
        definitions=used,
        transport=list(_transport(section, with_address=with_address)),
        messages=[
            MessageSpecification(_classes(by_event.get(event, b"")), f"{event}: {purpose}")
            for event, purpose in purposes
        ],
        segments=list(_objects(objects)),
        codes=[],
        acknowledgments=[
            Fact(reply, action)
            for reply, action in {**DEFAULTS, **section.replies}.items()
            if reply.partition(" ")[0] in _KINDS
        ],
        examples=[
            ExampleMessage(f"{event}: made-up objects", text_of_documents(payload))
            for event, payload in examples
        ],
    )


_KINDS: Final = frozenset({ReplyKind.DICOM.value, ReplyKind.SILENCE.value, ReplyKind.HTTP.value})


def _examples(
    section: DestinationSettings, layout: TextLayout, contexts: Sequence[ResultContext]
) -> Iterator[Example]:
    """Yield the objects of each event; those after the first follow the objects of the first."""
    documents, first = pacs_documents(section), b""
    for context in contexts:
        orders = tuple(
            replace(order, tags={"StudyInstanceUID": _STUDY, **order.tags})
            for order in context.orders
        )
        known = replace(context, orders=orders, control_id=f"{context.control_id}-{context.event}")
        sent = [sent_objects(first)] if first and context.event is not ResultEvent.FINAL else []
        try:
            payload = write_documents(known, layout, documents, sent)
        except CompositionError:
            continue
        first = first or (payload if context.event not in WITHDRAWALS else b"")
        yield context.event, payload


def _classes(payload: bytes) -> str:
    names = [UID(data.SOPClassUID).name for data in read_documents(payload)]
    return ", ".join(dict.fromkeys(names)) or "see the log"


def _transport(section: DestinationSettings, *, with_address: bool) -> Iterator[Fact]:
    address, chosen = section.address, section.dicom or DestinationDicom()
    if isinstance(address, DicomAddress):
        yield Fact("Protocol", "DICOM: C-STORE, an association for each report")
        yield Fact("Calling AE title", chosen.calling_ae_title)
        yield Fact("Called AE title", address.called_title)
        yield Fact("Transfer syntaxes", "Explicit VR Little Endian, Implicit VR Little Endian")
        yield Fact("Storage commitment", "requested" if chosen.commitment else "not requested")
        yield Fact("TLS", "none" if section.tls is None else "with the certificate of the PACS")
    else:
        yield Fact("Protocol", "DICOMweb: STOW-RS, a POST to /studies for each report")
    if with_address:
        yield Fact("Address", str(address))
    yield Fact("Character set", chosen.charset)
    yield Fact("Time zone", section.time_zone)
    yield Fact("Time to connect", f"{section.connect_timeout:g} s")
    yield Fact("Time to reply", f"{section.ack_timeout:g} s for each object")
    yield Fact("Order", "the versions of one report in the order of their release")
    yield Fact(
        "Repetition",
        f"all objects of a report with the same UIDs, first after {section.retry_first:g} s, "
        f"later at most every {section.retry_max:g} s",
    )


def _objects(objects: Sequence[Dataset]) -> Iterator[SegmentSpecification]:
    """Yield the attributes of each SOP class."""
    for sop_class in dict.fromkeys(data.SOPClassUID for data in objects):
        own = [data for data in objects if data.SOPClassUID == sop_class]
        tags = sorted({element.tag for data in own for element in data})
        fields = [
            _attribute([data[tag] for data in own if tag in data], is_always=_in_all(own, tag))
            for tag in tags
        ]
        yield SegmentSpecification(UID(sop_class).name, str(sop_class), "0..*", fields)


def _in_all(objects: Sequence[Dataset], tag: int) -> bool:
    return all(tag in data for data in objects)


def _attribute(elements: Sequence[DataElement], *, is_always: bool) -> FieldSpecification:
    first = next((element for element in elements if not element.is_empty), elements[0])
    is_nested = first.VR in ("SQ", "OB")
    example = "" if is_nested or first.is_empty else str(first.value)[:_LONGEST_EXAMPLE]
    return FieldSpecification(
        place=str(first.tag),
        name=first.name,
        type=first.VR,
        usage=Usage.REQUIRED if is_always and not first.is_empty else Usage.IF_KNOWN,
        cardinality="1..1" if is_always else "0..1",
        content="",
        example=example,
    )
