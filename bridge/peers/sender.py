"""Send messages one after the other over MLLP and hand back each acknowledgment."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from twisted.internet.endpoints import HostnameEndpoint

from mappings.hl7.ack import read_ack
from mllp.client import MLLPClient
from mllp.errors import MLLPError

_RECONNECT_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one message: the reply as it came, or why there is none."""

    reply: bytes | None
    trouble: str = ""

    @property
    def code(self) -> str:
        """MSA-1, or nothing when there is no acknowledgment."""
        return read_ack(self.reply).code or "" if self.reply is not None else ""

    @property
    def accepted(self) -> bool:
        """Whether the reply is AA or CA."""
        return self.code in {"AA", "CA"}


async def send(
    reactor: Any, host: str, port: int, messages: Sequence[bytes], *, reply_timeout: float
) -> AsyncIterator[Answer]:
    """Yield an answer for each message, in order; no message is sent twice."""
    loop = asyncio.get_running_loop()
    client = MLLPClient(
        HostnameEndpoint(reactor, host, port),
        clock=reactor,
        reply_timeout=reply_timeout,
        connect_timeout=reply_timeout,
        backoff=lambda _attempt: _RECONNECT_SECONDS,
    )
    try:
        for message in messages:
            try:
                yield Answer(await client.send(message).asFuture(loop))
            except MLLPError as error:
                yield Answer(None, str(error))
    finally:
        await client.close().asFuture(loop)
