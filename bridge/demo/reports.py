"""The scenes in which reports are read, signed, recalled, addended, and their results come back."""

import asyncio
import time
from collections.abc import Collection, Sequence
from typing import Final

from bridge.demo import script
from bridge.demo.checks import PATIENCE, expect
from bridge.demo.errors import Unexpected
from bridge.demo.hospital import Result
from bridge.demo.installation import SIGN_DELAY
from bridge.demo.radiologist import Order
from bridge.demo.script import DemoContext

MUELLER_BOTH, HOESS_BOTH = ("ACC7001", "ACC7006"), ("B81001", "B81002")
_MARGIN: Final = 1.0
"""Seconds after the end of a sign delay in which a recalled report would have gone out."""


async def reports_are_read(cast: DemoContext) -> None:
    """Open four reports by their links; release one at once, leave one a draft."""
    teller, reader = cast.teller, cast.radiologist
    teller.scene("Reports are read")
    for order, lines in (
        (script.MUELLER, script.MUELLER_TEXT),
        (script.WANG, script.WANG_FIRST),
        (script.HOESS, script.HOESS_TEXT),
        (script.KIM, script.KIM_TEXT),
    ):
        page = await reader.open(order)
        await page.write(lines)
    teller.done("four reports opened by their launch links, typed and saved", "Draft")
    await reader.do("prelim", script.WANG, prelimGroup="Residents", prelimTag="Night")
    await _came(cast, ("ACC7005",), "P", script.WANG_FIRST[0], None)
    teller.done("Wang: preliminary read; the RIS has its ORU", "P  1 ORU")
    began = time.time()
    await reader.do("sign", script.HOESS, ignoreSignDelay=True)
    await _came(cast, HOESS_BOTH, "F", script.HOESS_TEXT[0], began)
    teller.done("Höß: signed without delay; one ORU for each of the linked orders", "F  2 ORU")


async def signature_is_recalled(cast: DemoContext) -> None:
    """Recall a signature within the sign delay, and let the delay of another one pass."""
    teller, reader = cast.teller, cast.radiologist
    teller.scene("A signature is recalled")
    await reader.do("sign", script.WANG)
    recalled_until = await _release_at(cast, script.WANG)
    teller.done(f"Wang: signed; {SIGN_DELAY} s in which it can be recalled", "Final")
    await reader.do("unsign", script.WANG)
    expect("status after the recall", "Preliminary", (await reader.report(script.WANG)).status)
    teller.done("Wang: recalled in time", "Preliminary")
    await reader.do("sign", script.MUELLER)
    released = await _release_at(cast, script.MUELLER)
    teller.begun("Müller: signed; its sign delay runs …")
    arrived = await _came(cast, MUELLER_BOTH, "F", script.MUELLER_TEXT[-1], released)
    teller.done("Müller: released; one ORU for each of the two orders", "F  2 ORU")
    teller.say("\n       The first of them, as the RIS received it:\n")
    teller.message(arrived[0].message.raw)
    teller.say("")
    await asyncio.sleep(max(0.0, recalled_until + _MARGIN - time.time()))
    expect("results of the recalled report", 0, len(cast.hospital.unasked))
    teller.done("Wang: the delay is long over, and nothing was ever sent", "0 ORU")


async def signed_again(cast: DemoContext) -> None:
    """Correct and sign again what was recalled; add to what was released."""
    teller, reader = cast.teller, cast.radiologist
    teller.scene("Signed again, and an addendum")
    page = await reader.open(script.WANG)
    await page.write(script.WANG_SECOND)
    await reader.do("sign", script.WANG)
    released = await _release_at(cast, script.WANG)
    teller.begun("Wang: corrected and signed again; its sign delay runs …")
    (final,) = await _came(cast, ("ACC7005",), "F", script.WANG_SECOND[-1], released)
    expect("the text of the result", list(script.WANG_SECOND), final.text.splitlines())
    teller.done("Wang: released once, with the corrected text", "F  1 ORU")
    page = await reader.open(script.MUELLER)
    await page.write_addendum(script.MUELLER_ADDENDUM)
    teller.done("Müller: an addendum written and signed on the report's page", "Addendum")
    began = time.time()
    await reader.do("addendum/sign", script.MUELLER, ignoreSignDelay=True)
    await _came(cast, MUELLER_BOTH, "C", script.MUELLER_ADDENDUM, began)
    teller.done("Müller: the addendum released, its delay cut short", "C  2 ORU")


async def _came(
    cast: DemoContext, orders: Collection[str], status: str, text: str, released: float | None
) -> Sequence[Result]:
    """Wait for one result of each order, with this status and text; note how long they took."""
    left = 0.0 if released is None else max(0.0, released - time.time())
    results = await cast.hospital.next(len(orders), left + PATIENCE)
    expect("orders that results came for", sorted(orders), sorted(r.accession for r in results))
    expect("OBR-25 of the results", {status}, {each.status for each in results})
    for each in results:
        expect(f"the text of {each.accession}", text, text if text in each.text else each.text)
    if released is not None:
        cast.score.seconds += [each.at - released for each in results]
    return results


async def _release_at(cast: DemoContext, order: Order) -> float:
    """Return when a signed report will be released, in seconds since 1970."""
    report = await cast.radiologist.report(order)
    expect("status after signing", "Final", report.status)
    if report.release_at is None:
        raise Unexpected("end of the sign delay", "a time", None)
    return report.release_at / 1000
