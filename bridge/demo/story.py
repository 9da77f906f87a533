"""The scenes of the demonstration, from installation to stop, and the summary."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from statistics import median
from typing import Any, Final

from bridge.demo import script
from bridge.demo.installation import (
    HOST,
    SIGN_DELAY,
    SITE,
    USER,
    USER_NAME,
    DemoService,
    Ports,
    settings,
)
from bridge.demo.narration import TIMEOUT_SECONDS, Narrator, Unexpected, expect, until
from bridge.demo.participants import (
    Exchange,
    Hospital,
    Order,
    Radiologist,
    Result,
    System,
    WorklistReport,
)
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
        f"study, order group and printset: {several} reports of two orders each"
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
        raws = [file.read() for file in batch]
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
        return frozenset(tuple(sorted(report.accessions)) for report in reports)

    await until("reports on the worklist", found, lambda shown: shown == groups)


async def _until_changed(context: DemoContext) -> None:
    async def found() -> tuple[str, dict[str, str]]:
        reports = await context.radiologist.worklist()
        tags = {
            key: report.tags
            for report in reports
            for key in report.accessions & script.NAMES.keys()
        }
        names = {key: str(order_tags.get("PatientName", "")) for key, order_tags in tags.items()}
        study = tags.get("ACC7001", {}).get("StudyDescription", "")
        return str(study), names

    wanted = ("CT chest without contrast", script.NAMES)
    await until("changes on the worklist", found, lambda shown: shown == wanted)


MUELLER_BOTH, HOESS_BOTH = ("ACC7001", "ACC7006"), ("B81001", "B81002")
_MARGIN: Final = 1.0
"""Seconds after a sign delay in which a recalled report would have been sent."""


async def reports_are_read(context: DemoContext) -> None:
    """Open four reports by their links; release one immediately, leave one a draft."""
    narrator, reader = context.narrator, context.radiologist
    narrator.scene("Reports are read")
    for order, lines in (
        (script.MUELLER, script.MUELLER_TEXT),
        (script.WANG, script.WANG_FIRST),
        (script.HOESS, script.HOESS_TEXT),
        (script.KIM, script.KIM_TEXT),
    ):
        page = await reader.open(order)
        await page.write(lines)
    narrator.done("four reports opened by their launch links, typed and saved", "Draft")
    await reader.do("prelim", script.WANG, prelimGroup="Residents", prelimTag="Night")
    await _expect_results(context, ("ACC7005",), "P", script.WANG_FIRST[0], None)
    narrator.done("Wang: preliminary read; the RIS has its ORU", "P  1 ORU")
    began = time.time()
    await reader.do("sign", script.HOESS, ignoreSignDelay=True)
    await _expect_results(context, HOESS_BOTH, "F", script.HOESS_TEXT[0], began)
    narrator.done("Höß: signed without delay; one ORU for each of the linked orders", "F  2 ORU")


async def signature_is_recalled(context: DemoContext) -> None:
    """Recall one signature within the sign delay; wait for the end of another delay."""
    narrator, reader = context.narrator, context.radiologist
    narrator.scene("A signature is recalled")
    await reader.do("sign", script.WANG)
    recalled_until = await _release_at(context, script.WANG)
    narrator.done(f"Wang: signed; {SIGN_DELAY} s in which it can be recalled", "Final")
    await reader.do("unsign", script.WANG)
    expect("status after the recall", "Preliminary", (await reader.report(script.WANG)).status)
    narrator.done("Wang: recalled in time", "Preliminary")
    await reader.do("sign", script.MUELLER)
    released = await _release_at(context, script.MUELLER)
    narrator.begun("Müller: signed; its sign delay runs …")
    arrived = await _expect_results(context, MUELLER_BOTH, "F", script.MUELLER_TEXT[-1], released)
    narrator.done("Müller: released; one ORU for each of the two orders", "F  2 ORU")
    narrator.say("\n       The first of them, as the RIS received it:\n")
    narrator.message(arrived[0].message.raw)
    narrator.say("")
    await asyncio.sleep(max(0.0, recalled_until + _MARGIN - time.time()))
    expect("results of the recalled report", 0, len(context.hospital.unread))
    narrator.done("Wang: the delay is long over, and nothing was ever sent", "0 ORU")


async def signed_again(context: DemoContext) -> None:
    """Correct and sign the recalled report; add an addendum to the released one."""
    narrator, reader = context.narrator, context.radiologist
    narrator.scene("Signed again, and an addendum")
    page = await reader.open(script.WANG)
    await page.write(script.WANG_SECOND)
    await reader.do("sign", script.WANG)
    released = await _release_at(context, script.WANG)
    narrator.begun("Wang: corrected and signed again; its sign delay runs …")
    (final,) = await _expect_results(context, ("ACC7005",), "F", script.WANG_SECOND[-1], released)
    expect("the text of the result", list(script.WANG_SECOND), final.text.splitlines())
    narrator.done("Wang: released once, with the corrected text", "F  1 ORU")
    page = await reader.open(script.MUELLER)
    await page.write_addendum(script.MUELLER_ADDENDUM)
    narrator.done("Müller: an addendum written and signed on the report's page", "Addendum")
    began = time.time()
    await reader.do("addendum/sign", script.MUELLER, ignoreSignDelay=True)
    await _expect_results(context, MUELLER_BOTH, "C", script.MUELLER_ADDENDUM, began)
    narrator.done("Müller: the addendum released, its delay cut short", "C  2 ORU")


async def _expect_results(
    context: DemoContext, orders: Collection[str], status: str, text: str, released: float | None
) -> Sequence[Result]:
    """Wait for one result per order with this status and text; record the time it took."""
    left = 0.0 if released is None else max(0.0, released - time.time())
    results = await context.hospital.next(len(orders), left + TIMEOUT_SECONDS)
    expect("orders that results came for", sorted(orders), sorted(r.accession for r in results))
    expect("OBR-25 of the results", {status}, {result.status for result in results})
    for result in results:
        expect(
            f"the text of {result.accession}", text, text if text in result.text else result.text
        )
    if released is not None:
        context.statistics.seconds += [result.at - released for result in results]
    return results


async def _release_at(context: DemoContext, order: Order) -> float:
    """Return the release time of a signed report, in seconds since the epoch."""
    report = await context.radiologist.report(order)
    expect("status after signing", "Final", report.status)
    if report.release_at is None:
        raise Unexpected("end of the sign delay", "a time", None)
    return report.release_at / 1000


_STATUSES: Mapping[str, str] = {"P": "preliminary", "F": "final", "C": "with addendum"}


def summary(context: DemoContext, reports: Sequence[WorklistReport]) -> list[tuple[str, str, str]]:
    """Return the rows of the summary: name, value, and parts."""
    statistics, results = context.statistics, context.hospital.results
    senders = [
        f"{name} ({context.systems[name].charset}) {count}"
        for name, count in statistics.senders.items()
    ]
    statuses = Counter(report.status for report in reports)
    kinds = Counter(_STATUSES.get(result.status, result.status) for result in results)
    return [
        ("Order messages in", str(statistics.orders.total()), _parts(statistics.orders)),
        ("Patient messages in", str(statistics.patients.total()), _parts(statistics.patients)),
        ("Senders", str(len(senders)), ", ".join(senders)),
        ("ACKs", str(statistics.acks.total()), _parts(statistics.acks)),
        ("Reports", str(len(reports)), _parts(statuses)),
        ("ORUs out", str(len(results)), _parts(kinds)),
        ("Sign to ORU", _milliseconds(median(statistics.seconds)), _latency(statistics.seconds)),
    ]


def _parts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _latency(seconds: Sequence[float]) -> str:
    return (
        f"the median of {len(seconds)}, from the end of the sign delay; "
        f"the slowest {_milliseconds(max(seconds))}"
    )


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def read_samples() -> None:
    """Check that all samples exist. Raises SamplesMissing."""
    for sample in (*script.NEW, *script.CHANGED, script.AGAIN, *script.REFUSED):
        sample.read()


async def install(narrator: Narrator, service: DemoService, ports: Ports) -> str:
    """Create a data directory, start the service, and return the token of its user."""
    narrator.scene("An installation of its own, made with the bridge command")
    home = ("--home", str(service.home))
    await service.bridge("init", str(service.home))
    (service.home / "bridge.toml").write_text(settings(ports), "utf-8")
    narrator.done("bridge init: settings, mappings, secrets", "SQLite")
    await service.bridge("site", "add", SITE, *home, "--sign-delay", str(SIGN_DELAY),
                       "--time-zone", "Europe/Zurich", "--name", "North Radiology")  # fmt: skip
    narrator.done(f"bridge site add {SITE}", f"sign delay {SIGN_DELAY} s")
    narrator.begun("bridge serve: starting …")
    serving = asyncio.ensure_future(service.serve(ports.address))
    try:
        who = (USER, *home, "--name", USER_NAME, "--site", SITE, "--admin")
        await service.bridge("user", "add", *who)
        narrator.done(f"bridge user add {USER}", USER_NAME)
        token = (await service.bridge("token", "create", *home, "--user", USER)).strip()
        narrator.done("bridge token create", "for the host application")
        await serving
    finally:
        serving.cancel()
    narrator.done("bridge serve is ready", f"{HOST}:{ports.web}")
    return token


async def play(context: DemoContext) -> None:
    """Run all scenes with a running service."""
    for system in context.systems.values():
        context.narrator.done(
            f"listens for {system.name} ({system.charset})", f"{HOST}:{system.port}"
        )
    await orders_arrive(context)
    await orders_change(context)
    await hospital_errs(context)
    await reports_are_read(context)
    await signature_is_recalled(context)
    await signed_again(context)


async def settle(context: DemoContext, service: DemoService) -> list[tuple[str, str, str]]:
    """Check that no work is left; return the rows of the summary."""
    context.narrator.scene("Nothing is left over")
    ids = [result.message.header.control_id for result in context.hospital.results]
    expect("control ids of the results, all different", len(ids), len(set(ids)))

    async def states() -> set[str]:
        command = ("deliveries", "list", "--home", str(service.home), "--json")
        rows: list[dict[str, Any]] = json.loads(await service.bridge(*command))
        # A cancelled order is not reported to receivers that got no result of it.
        wanted = [row["state"] for row in rows if row["state"] != "ignored"]
        expect("deliveries", len(ids), len(wanted))
        return set(wanted)

    await until("deliveries done", states, lambda found: found == {"done"})
    context.narrator.done(
        "bridge deliveries list: each went out once and was accepted", f"{len(ids)}"
    )
    expect("results that nobody expected", 0, len(context.hospital.unread))
    return summary(context, await context.radiologist.worklist())


async def close(narrator: Narrator, service: DemoService) -> None:
    """Stop the service as a process manager does."""
    expect("exit status of bridge serve after SIGTERM", 0, await service.stop())
    narrator.done("bridge serve drained and ended after SIGTERM", "exit 0")


def systems(ports: Ports) -> dict[str, System]:
    """Return the two senders by name."""
    return {
        script.RIS_A: System(script.RIS_A, "UTF-8", ports.ris_a),
        script.HIS_B: System(script.HIS_B, "8859/1", ports.his_b),
    }


def make_context(
    narrator: Narrator, hospital: Hospital, ports: Ports, radiologist: Radiologist
) -> DemoContext:
    """Return the participants."""
    return DemoContext(narrator, hospital, systems(ports), radiologist)
