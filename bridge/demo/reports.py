"""Scenes of the radiologist: reports are read, signed, recalled and addended."""

import asyncio
import time
from collections.abc import Collection, Sequence
from typing import Final

from bridge.demo import script
from bridge.demo.checks import TIMEOUT_SECONDS, expect
from bridge.demo.errors import Unexpected
from bridge.demo.hospital import Result
from bridge.demo.installation import SIGN_DELAY
from bridge.demo.radiologist import Order
from bridge.demo.script import DemoContext

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
    expect("OBR-25 of the results", {status}, {each.status for each in results})
    for each in results:
        expect(f"the text of {each.accession}", text, text if text in each.text else each.text)
    if released is not None:
        context.statistics.seconds += [each.at - released for each in results]
    return results


async def _release_at(context: DemoContext, order: Order) -> float:
    """Return the release time of a signed report, in seconds since the epoch."""
    report = await context.radiologist.report(order)
    expect("status after signing", "Final", report.status)
    if report.release_at is None:
        raise Unexpected("end of the sign delay", "a time", None)
    return report.release_at / 1000
