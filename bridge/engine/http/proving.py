"""
Let a browser show that it may frame a page, before anything comes of its request.

Where another site asks for a frame and names no allowed host, a page is sent that asks again: a
browser runs it only where `frame-ancestors` allows.
"""

from fastapi import Request
from starlette.responses import Response

from bridge.engine.http import pages
from bridge.engine.http.notices import Notice, language_of, words
from bridge.engine.http.same_origin import framed_by_others, host_of
from bridge.engine.http.state import Engine
from bridge.engine.links import Purpose
from bridge.engine.service.framing import Framing, observe, unproven
from bridge.engine.service.opening import Door
from bridge.engine.service.work import Actor


async def to_be_proven(
    engine: Engine, request: Request, door: Door, handle: str, purpose: Purpose
) -> Response | None:
    """Return the page that a browser has to show first; None where nothing is to be proven."""
    if not handle or not framed_by_others(request):
        return None
    framing, now = Framing(handle, purpose, host_of(request)), engine.clock()
    found = await engine.work.read(lambda c: unproven(c, door, framing, now))
    if found is None:
        return None
    if framing.host:
        await engine.work.change(
            Actor(), now, lambda work: observe(work, door, found.link, framing.host)
        )
    code = language_of(request)
    return pages.proving_page(found.hosts, words(Notice.FRAME_NOT_PERMITTED, code), code)
