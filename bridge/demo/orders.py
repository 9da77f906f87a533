"""The scenes in which the hospital sends: orders, changes, a retransmit, and what is refused."""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from bridge.demo import script
from bridge.demo.checks import expect, until
from bridge.demo.hospital import Exchange
from bridge.demo.script import DemoContext, Groups, SampleMessage
from mappings.hl7.header import peek
from mappings.hl7.message import Message
from mappings.hl7.refusals import MalformedMessage


async def orders_arrive(cast: DemoContext) -> None:
    """Send new orders, in two charsets; what belongs together becomes one report."""
    cast.teller.scene("Orders come in over MLLP")
    await _send(cast, script.NEW)
    groups = script.STANDING | script.WITHDRAWN
    await _until_grouped(cast, groups)
    several = sum(len(group) > 1 for group in groups)
    cast.teller.done(
        f"on the worklist: {sum(map(len, groups))} orders in {len(groups)} reports; linked by "
        f"study, order group and printset: {several} reports of two orders each",
    )


async def orders_change(cast: DemoContext) -> None:
    """Send changes, a cancel, a discontinue, patient updates."""
    cast.teller.scene("Orders and patients change")
    await _send(cast, script.CHANGED)
    await _until_grouped(cast, script.STANDING)
    cast.teller.done("off the worklist: the cancelled and the discontinued order")

    await _until_changed(cast)
    cast.teller.done(
        "changed on the worklist: Müller's study, Kim-Park's name; Müller (UTF-8) and Höß (8859/1) "
        "are spelled right"
    )


async def hospital_errs(cast: DemoContext) -> None:
    """Send a message again, and send what must be refused with its place."""
    cast.teller.scene("The hospital errs")
    raw = script.AGAIN.read()
    system = cast.systems[script.AGAIN.system]
    async for again in cast.hospital.send(system, [raw]):
        expect("the ACK of a message sent again", cast.score.replies[raw], again.reply)
        _tell(cast, script.AGAIN, raw, again)
    cast.teller.done("the message has been there before: the stored ACK again, byte for byte")
    await _send(cast, script.REFUSED)
    await _until_grouped(cast, script.STANDING)
    await _until_changed(cast)
    cast.teller.done("the worklist is as it was before")


async def _send(cast: DemoContext, samples: Sequence[SampleMessage]) -> None:
    for name, group in groupby(samples, attrgetter("system")):
        batch = list(group)
        raws = [each.read() for each in batch]
        exchanges = cast.hospital.send(cast.systems[name], raws)
        index = 0
        async for exchange in exchanges:
            _tell(cast, batch[index], raws[index], exchange)
            index += 1
        expect(f"replies to {name}", len(batch), index)


def _tell(cast: DemoContext, sample: SampleMessage, raw: bytes, exchange: Exchange) -> None:
    expect(f"acknowledgment of {sample.file}", sample.code, exchange.ack.code)
    reply = Message.parse(exchange.reply)
    if sample.place:
        expect(f"refusal of {sample.file}", sample.place, exchange.ack.text.rpartition(": ")[2])
    else:
        expect(f"MSA-2 for {sample.file}", peek(raw).control_id, exchange.ack.control_id)
    _count(cast, sample, raw, exchange)
    said = f": {reply.value('MSA-3')}" if sample.place else ""
    cast.teller.done(
        f"{sample.system}  {_kind(raw):<8}  {sample.words}{said}",
        f"{exchange.ack.code}  {exchange.seconds * 1000:4.0f} ms",
    )


def _count(cast: DemoContext, sample: SampleMessage, raw: bytes, exchange: Exchange) -> None:
    score, kind = cast.score, _kind(raw)
    score.acks[sample.code] += 1
    if sample.place or raw in score.replies:
        return
    score.replies[raw] = exchange.reply
    (score.patients if kind.startswith("ADT") else score.orders)[kind] += 1
    score.senders[sample.system] += 1


def _kind(raw: bytes) -> str:
    try:
        header = peek(raw)
    except MalformedMessage:
        return "-"
    return f"{header.message_code}^{header.trigger}"


async def _until_grouped(cast: DemoContext, groups: Groups) -> None:
    async def found() -> Groups:
        reports = await cast.radiologist.worklist()
        return frozenset(tuple(sorted(each.accessions)) for each in reports)

    await until("reports on the worklist", found, lambda each: each == groups)


async def _until_changed(cast: DemoContext) -> None:
    async def found() -> tuple[str, dict[str, str]]:
        reports = await cast.radiologist.worklist()
        tags = {key: each.tags for each in reports for key in each.accessions & script.NAMES.keys()}
        names = {key: str(each.get("PatientName", "")) for key, each in tags.items()}
        study = tags.get("ACC7001", {}).get("StudyDescription", "")
        return str(study), names

    wanted = ("CT chest without contrast", script.NAMES)
    await until("changes on the worklist", found, lambda each: each == wanted)
