"""
A server or a client on real sockets, in its own process, on Twisted's asyncio reactor.

An installed reactor cannot be removed: hence the process. Usage: `python live.py serve|send JSON`.
The process writes each event to stdout, one JSON array a line.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from twisted.internet import asyncioreactor
from typing_extensions import override

loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
asyncioreactor.install(loop)

from twisted.internet import endpoints, reactor  # noqa: E402  # after the installation
from twisted.internet.defer import maybeDeferred  # noqa: E402

from mllp import Frame, FramingError, MLLPError  # noqa: E402
from mllp.client import MLLPClient  # noqa: E402
from mllp.contract import Peer, ReplyCallback, ServerLimits, ServerObserver  # noqa: E402
from mllp.server import MLLPServerFactory  # noqa: E402
from mllp.tls import (  # noqa: E402
    HandshakeFailure,
    client_options,
    server_options,
)

the_reactor: Any = reactor


def report(*words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def path(options: dict[str, Any], name: str) -> Path | None:
    return Path(options[name]) if options.get(name) else None


class ReportingObserver(ServerObserver):
    @override
    def connection_refused(self) -> None:
        report("refused")

    @override
    def handshake_failed(self, host: str, why: HandshakeFailure) -> None:
        report("handshake failed", why.reason, why.subject)

    @override
    def frame_refused(self, reason: FramingError) -> None:
        report("frame refused", type(reason).__name__)

    @override
    def connection_closed(self, peer: Peer) -> None:
        report("closed")


def handle(arrived: Frame, peer: Peer, done: ReplyCallback) -> None:
    """Reply with the payload in lower case, or with its length if it is long. SLOW waits."""
    reply = b"%d" % len(arrived.payload) if len(arrived.payload) > 99 else arrived.payload.lower()
    if arrived.payload.startswith(b"SLOW"):
        the_reactor.callLater(0.3, done, [reply])
    else:
        done([reply])


async def serve(options: dict[str, Any]) -> None:
    factory = MLLPServerFactory(
        handle,
        ServerLimits(**options.get("limits", {})),
        clock=the_reactor,
        observer=ReportingObserver(),
        on_unframed=lambda error, head: type(error).__name__.encode() + b" " + head[:4],
    )
    certificate, key = path(options, "certificate"), path(options, "key")
    where: Any = endpoints
    endpoint = where.TCP4ServerEndpoint(the_reactor, 0, interface="127.0.0.1")
    if certificate and key:
        tls = server_options(certificate, key, path(options, "client_ca"))
        endpoint = where.SSL4ServerEndpoint(the_reactor, 0, tls, interface="127.0.0.1")
    port = await endpoint.listen(factory).asFuture(loop)
    report("listening", port.getHost().port)
    await asyncio.to_thread(sys.stdin.read)
    await maybeDeferred(port.stopListening).asFuture(loop)
    await factory.drain().asFuture(loop)
    report("drained")


async def send(options: dict[str, Any]) -> None:
    endpoint: Any = endpoints.HostnameEndpoint(the_reactor, "127.0.0.1", options["port"])
    if options.get("server_name"):
        ca, certificate, key = (path(options, name) for name in ("ca", "certificate", "key"))
        tls = client_options(ca, certificate, key, options["server_name"])
        endpoint = endpoints.wrapClientTLS(tls, endpoint)
    within = options.get("reply_timeout", 30)
    client = MLLPClient(endpoint, clock=the_reactor, reply_timeout=within, backoff=lambda _: 0.01)
    for payload in options["payloads"]:
        try:
            reply = await client.send(payload.encode()).asFuture(loop)
            report("reply", reply.decode())
        except MLLPError as error:
            report(type(error).__name__, str(error))
    await client.close().asFuture(loop)
    report("closed", len(the_reactor.getDelayedCalls()))


if __name__ == "__main__":
    command = {"serve": serve, "send": send}[sys.argv[1]]
    the_reactor.startRunning(installSignalHandlers=False)
    loop.run_until_complete(command(json.loads(sys.argv[2])))
    the_reactor.fireSystemEvent("shutdown")  # ends the threads of the name resolver
