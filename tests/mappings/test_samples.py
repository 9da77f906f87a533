"""
Sample messages with their expected output: each file of the folders is a test.

`sample_messages/README.md` describes the folders and file names.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from mappings.authoring.trial import try_message
from mappings.compiler import compile_sources, definition_names, read_folder
from mappings.hl7.acknowledgment import build_ack, read_ack, unframed_nak
from mappings.hl7.header import peek
from mappings.hl7.message import Message
from mappings.hl7.refusals import MalformedMessage, MessageRefusal, strictest
from mappings.inbound.definition import InboundMapping, refusal_for
from mappings.language.definition_files import overlay_settings
from mappings.language.diagnostics import Sources
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import (
    DocumentNames,
    FileFormat,
    ResultContext,
    ResultEvent,
    ResultOrder,
    SignedAddendum,
    Signer,
)
from tests.mappings.definitions import DEFAULTS, NOW, SHIPPED
from tests.mappings.results import SAMPLES, orders_of

INBOUND = ("orders", "patients")


def sources(folder: Path) -> tuple[Sources, list[str]]:
    own = folder / "mappings"
    brought = read_folder(own) if own.is_dir() else {}
    return {**SHIPPED, **brought}, [*definition_names(brought), *INBOUND]


def inbound(folder: Path) -> list[InboundMapping]:
    """Return the inbound definitions of a sample folder, in the order of evaluation."""
    texts, names = sources(folder)
    compiled = [compile_sources(texts, name) for name in names]
    return [mapping for mapping in compiled if isinstance(mapping, InboundMapping)]


def route(
    raw: bytes, mappings: list[InboundMapping]
) -> tuple[InboundMapping | None, list[MessageRefusal]]:
    try:
        header = peek(raw)
    except MalformedMessage as refusal:
        return None, [refusal]
    for mapping in mappings:
        if mapping.accepts(header):
            return mapping, []
    return None, [refusal_for(header, [mapping.acceptance for mapping in mappings])]


def outcome(path: Path) -> tuple[dict[str, Any], list[MessageRefusal]]:
    raw = path.read_bytes()
    mapping, refusals = route(raw, inbound(path.parent))
    if mapping is None:
        return {"refused": [refusal_values(refusal) for refusal in refusals]}, refusals
    trial = try_message(mapping, raw, DEFAULTS)
    refusals = [issue.refusal for issue in trial.issues if issue.refusal]
    if refusals:
        return {"refused": [refusal_values(refusal) for refusal in refusals]}, refusals
    events = [{**event, "echo": [line[:3] for line in event["echo"]]} for event in trial.events]
    return {"lanes": list(trial.lanes), "events": events}, []


def refusal_values(refusal: MessageRefusal) -> dict[str, str]:
    return {
        "ack": refusal.ack_code.value,
        "error": refusal.error_code.value,
        "place": refusal.place,
    }


def negative_ack(path: Path, refusals: list[MessageRefusal]) -> bytes:
    raw = path.read_bytes()
    try:
        header = peek(raw)
    except MalformedMessage:
        return unframed_nak(raw, refusals[0], control_id="ACK0001", now=NOW)
    code = strictest(refusals)
    return build_ack(header, code, control_id="ACK0001", now=NOW, refusals=refusals)


def context_of(path: Path) -> tuple[OutboundMapping, ResultContext]:
    """Read a result sample: the release and the order messages of its report."""
    sample = json.loads(path.read_text(encoding="utf-8"))
    texts, _ = sources(path.parent)
    words = sample.get("words", {})
    mapping = compile_sources(
        *overlay_settings(texts, sample.get("mapping", "results"), words, "words")
    )
    assert isinstance(mapping, OutboundMapping)
    orders = [
        result_order
        for name in sample["orders"]
        for result_order in result_orders(path.parent / name)
    ]
    for order in orders:
        order.tags.update(sample.get("tags", {}))  # type: ignore[attr-defined]  # made as a dict
        order.metadata.update(sample.get("metadata", {}))  # type: ignore[attr-defined]  # as above
    signer = Signer(**sample.get("signed_by", {}))
    return mapping, ResultContext(
        event=ResultEvent(sample["event"]),
        control_id="C0001",
        now=NOW,
        site="SITE1",
        orders=tuple(orders),
        report_text=sample.get("text", ""),
        addenda=tuple(
            SignedAddendum(addendum["text"], NOW, Signer(**addendum.get("signed_by", {})))
            for addendum in sample.get("addenda", [])
        ),
        signed_at=NOW if signer.name else None,
        signed_by=signer,
        destination=sample.get("destination", {}),
        report_status=sample.get("report_status", ""),
        time_zone=DEFAULTS.time_zone,
        earlier=tuple(ResultEvent(item) for item in sample.get("earlier", [])),
        files={FileFormat(name): text.encode() for name, text in sample.get("files", {}).items()},
        document=DocumentNames(**sample.get("document", {})),
    )


def result_orders(path: Path) -> list[ResultOrder]:
    message = Message.parse(path.read_bytes())
    mapping = next(
        inbound_mapping
        for inbound_mapping in inbound(path.parent)
        if inbound_mapping.accepts(message.header)
    )
    return orders_of(message, mapping)


def files(*folders: str, ending: str) -> list[Any]:
    return [
        pytest.param(path, id=path.relative_to(SAMPLES).as_posix())
        for folder in folders
        for path in sorted((SAMPLES / folder).rglob(f"*{ending}"))
        if not path.name.endswith(".ack.hl7") and path.parent.name != "mappings"
    ]


@pytest.mark.parametrize("path", files("orders", "quirks", "invalid", ending=".hl7"))
def test_inbound(path: Path) -> None:
    """A message results in the events or refusals of its expected file."""
    result, refusals = outcome(path)
    assert result == json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    if refusals:
        assert negative_ack(path, refusals) == path.with_suffix(".ack.hl7").read_bytes()


@pytest.mark.parametrize("path", files("results", ending=".json"))
def test_results(path: Path) -> None:
    """A release results in the message of its expected file, byte for byte."""
    mapping, context = context_of(path)
    assert mapping.render(context) == path.with_suffix(".hl7").read_bytes()


@pytest.mark.parametrize("path", files("acks", ending=".hl7"))
def test_acks(path: Path) -> None:
    """A reply is parsed as its expected file states."""
    reply = read_ack(path.read_bytes())
    assert {
        "code": reply.code,
        "control_id": reply.control_id.decode("latin-1"),
        "errors": list(reply.error_codes),
    } == json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))


def test_number_of_samples() -> None:
    """There are at least three message types of two senders in two charsets."""
    messages = [
        Message.parse(path.values[0].read_bytes()) for path in files("orders", ending=".hl7")
    ]
    assert {m.header.message_code for m in messages} >= {"ORM", "OMG", "OMI", "ADT"}
    assert len({m.header.sending_application for m in messages}) >= 2
    assert len({m.encoding for m in messages}) >= 2
