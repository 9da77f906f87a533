"""Scenes of the hospital: orders, changes, a retransmission, and refused messages."""

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


async def orders_arrive(context: DemoContext) -> None:
    """Send new orders in two charsets; related orders become one report."""
    context.narrator.scene("Orders come in over MLLP")
    await _send(context, script.NEW)
    groups = script.FINAL_GROUPS | script.CANCELLED_GROUPS
    await _until_grouped(context, groups)
    several = sum(len(group) > 1 for group in groups)
    context.narrator.done(
        f"on the worklist: {sum(map(len, groups))} orders in {len(groups)} reports; linked by "
        f"study, order group and printset: {several} reports of two orders each",
    )


async def orders_change(context: DemoContext) -> None:
    """Send changes, a cancellation, a discontinuation, and patient updates."""
    context.narrator.scene("Orders and patients change")
    await _send(context, script.CHANGED)
    await _until_grouped(context, script.FINAL_GROUPS)
    context.narrator.done("off the worklist: the cancelled and the discontinued order")

    await _until_changed(context)
    context.narrator.done(
        "changed on the worklist: Müller's study, Kim-Park's name; Müller (UTF-8) and Höß (8859/1) "
        "are spelled right"
    )


async def hospital_errs(context: DemoContext) -> None:
    """Send a message again, and send messages that are refused with an error location."""
    context.narrator.scene("The hospital errs")
    raw = script.AGAIN.read()
    system = context.systems[script.AGAIN.system]
    async for again in context.hospital.send(system, [raw]):
        expect("the ACK of a message sent again", context.statistics.replies[raw], again.reply)
        _report_exchange(context, script.AGAIN, raw, again)
    context.narrator.done("the message has been there before: the stored ACK again, byte for byte")
    await _send(context, script.REFUSED)
    await _until_grouped(context, script.FINAL_GROUPS)
    await _until_changed(context)
    context.narrator.done("the worklist is as it was before")


async def _send(context: DemoContext, samples: Sequence[SampleMessage]) -> None:
    for name, group in groupby(samples, attrgetter("system")):
        batch = list(group)
        raws = [each.read() for each in batch]
        exchanges = context.hospital.send(context.systems[name], raws)
        index = 0
        async for exchange in exchanges:
            _report_exchange(context, batch[index], raws[index], exchange)
            index += 1
        expect(f"replies to {name}", len(batch), index)


def _report_exchange(
    context: DemoContext, sample: SampleMessage, raw: bytes, exchange: Exchange
) -> None:
    expect(f"acknowledgment of {sample.file}", sample.code, exchange.ack.code)
    reply = Message.parse(exchange.reply)
    if sample.place:
        expect(f"refusal of {sample.file}", sample.place, exchange.ack.text.rpartition(": ")[2])
    else:
        expect(f"MSA-2 for {sample.file}", peek(raw).control_id, exchange.ack.control_id)
    _count(context, sample, raw, exchange)
    reason = f": {reply.value('MSA-3')}" if sample.place else ""
    context.narrator.done(
        f"{sample.system}  {_kind(raw):<8}  {sample.description}{reason}",
        f"{exchange.ack.code}  {exchange.seconds * 1000:4.0f} ms",
    )


def _count(context: DemoContext, sample: SampleMessage, raw: bytes, exchange: Exchange) -> None:
    statistics, kind = context.statistics, _kind(raw)
    statistics.acks[sample.code] += 1
    if sample.place or raw in statistics.replies:
        return
    statistics.replies[raw] = exchange.reply
    (statistics.patients if kind.startswith("ADT") else statistics.orders)[kind] += 1
    statistics.senders[sample.system] += 1


def _kind(raw: bytes) -> str:
    try:
        header = peek(raw)
    except MalformedMessage:
        return "-"
    return f"{header.message_code}^{header.trigger}"


async def _until_grouped(context: DemoContext, groups: Groups) -> None:
    async def found() -> Groups:
        reports = await context.radiologist.worklist()
        return frozenset(tuple(sorted(each.accessions)) for each in reports)

    await until("reports on the worklist", found, lambda each: each == groups)


async def _until_changed(context: DemoContext) -> None:
    async def found() -> tuple[str, dict[str, str]]:
        reports = await context.radiologist.worklist()
        tags = {key: each.tags for each in reports for key in each.accessions & script.NAMES.keys()}
        names = {key: str(each.get("PatientName", "")) for key, each in tags.items()}
        study = tags.get("ACC7001", {}).get("StudyDescription", "")
        return str(study), names

    wanted = ("CT chest without contrast", script.NAMES)
    await until("changes on the worklist", found, lambda each: each == wanted)
