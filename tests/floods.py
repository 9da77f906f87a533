"""
A manual drill: floods over HTTP and MLLP from one address, orders over MLLP from another.

`python -m tests.floods [SECONDS]` starts a service with 1,024 file descriptors on this machine's
loopback. For each flood it prints the latency of orders and `/readyz`, and the growth of memory
at its maximum.
"""

import contextlib
import itertools
import multiprocessing
import resource
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.acceptance.forked import Running, started
from tests.acceptance.house import House, free_port
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender, verdict
from tests.benchmarks.installation import resident

SENDER, ATTACKER = "127.0.0.2", "127.0.0.9"
DESCRIPTORS, ATTEMPTS = 1024, 1100
LARGE = 20 * 2**20
CROWD = 24
POST = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
JSON, FORM = b"application/json", b"application/x-www-form-urlencoded"

CHUNKED = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n"
CHUNKED += b"Transfer-Encoding: chunked\r\n\r\n"
TINY_CHUNKS = b"1\r\nx\r\n" * 200_000

Flood = Callable[[int], None]


def connect(port: int, source: str = ATTACKER) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 5, (source, 0))


def hold(port: int, start: bytes) -> None:
    """Keep many connections open that start a request and do not finish it."""
    held: list[socket.socket] = []
    while True:
        with contextlib.suppress(OSError):
            held.append(connect(port))
            held[-1].sendall(start)
        if len(held) > ATTEMPTS:
            held.pop(0).close()


def crowd(port: int, request: bytes, *, reads: bool = True) -> None:
    def send() -> None:
        while True:
            with contextlib.suppress(OSError), connect(port) as line:
                line.sendall(request)
                while reads and line.recv(65536):
                    pass

    for _ in range(CROWD):
        threading.Thread(target=send, daemon=True).start()
    threading.Event().wait()


def half_heads(port: int) -> None:
    hold(port, b"GET /reporting/worklist HTTP/1.1\r\nHost:")


def silence(port: int) -> None:
    """Connections that send nothing."""
    hold(port, b"")


def half_forms(port: int) -> None:
    hold(port, POST % (b"/reporting/login", FORM, 100) + b"email=")


def large_bodies(port: int) -> None:
    """Large bodies of many small values, without authentication."""
    body = b"[" + b"[]," * (LARGE // 3)
    crowd(port, POST % (b"/console/api/mapping-learn", JSON, len(body)) + body)


def large_api_bodies(port: int) -> None:
    body = b"[" + b"[]," * (LARGE // 3)
    head = POST % (b"/api/report/launch/clinical", JSON, len(body))
    crowd(port, head.replace(b"Host: x", b"Host: x\r\nX-Access-Token: wrong") + body)


def guesses(port: int) -> None:
    form = b"email=ada%40example.org&password=wrong-password"
    head = POST % (b"/reporting/login", FORM, len(form))
    head = head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    crowd(port, head + form)


def slow_readers(port: int) -> None:
    """Requests whose responses are not read."""
    hold(port, b"GET /reporting/login HTTP/1.1\r\nHost: x\r\n\r\n" * 16)


def tiny_chunks(port: int) -> None:
    crowd(port, CHUNKED % b"/reporting/login" + TINY_CHUNKS)


def hl7_tiny_chunks(port: int) -> None:
    crowd(port, CHUNKED % b"/hl7" + TINY_CHUNKS)


def hl7_forms(port: int) -> None:
    """Forms to HL7 over HTTP, with a second content type."""
    body = b"a&" * (7 * 2**20)
    head = POST.replace(b"\r\n\r\n", b"\r\nContent-Type: text/plain\r\n\r\n")
    crowd(port, head % (b"/hl7", FORM, len(body)) + body)


def hl7_packets(port: int) -> None:
    """Many requests to HL7 over HTTP in each packet, whose responses are not read."""
    crowd(port, b"GET /unknown HTTP/1.1\r\nHost: x\r\n\r\n" * 50_000, reads=False)


def tiny_frames(port: int) -> None:
    """Many MLLP frames in each packet, whose replies are not read."""
    crowd(port, b"\x0bMSH|^~\\&|a|b|c|d|1||ORM^O01|1|P|2.5\r\x1c\r" * 50_000, reads=False)


HTTP_FLOODS: tuple[Flood, ...] = (
    half_heads,
    silence,
    half_forms,
    large_bodies,
    large_api_bodies,
    guesses,
    slow_readers,
    tiny_chunks,
)
HL7_FLOODS: tuple[Flood, ...] = (hl7_tiny_chunks, hl7_forms, hl7_packets)


class OrderSender:
    """Sends orders and readiness probes from its own address."""

    def __init__(self, house: House, pid: int) -> None:
        self._house = house
        self.pid = pid
        self.memory = 0.0
        """Maximum of the service's memory, in MiB."""
        self._numbers = itertools.count(1)
        self._sender = Sender(house.mllp_port)
        self._sender.socket.close()
        self._sender.socket = connect(house.mllp_port, SENDER)

    def measure(self, seconds: float) -> tuple[list[float], list[float]]:
        """Return the latencies of acknowledgments and of `/readyz`."""
        acks, probes, end = [], [], time.monotonic() + seconds
        while time.monotonic() < end:
            self.memory = max(self.memory, resident(self.pid))
            began = time.monotonic()
            assert verdict(self._sender.ask(order(next(self._numbers))))[0] in {"AA", "CA"}
            acks.append(time.monotonic() - began)
            began = time.monotonic()
            with connect(self._house.http_port, SENDER) as line:
                line.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                answer = b""
                while data := line.recv(4096):
                    answer += data
            probes.append(time.monotonic() - began if b" 200 " in answer[:16] else seconds)
            time.sleep(0.02)
        return sorted(acks), sorted(probes)


def report(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def line(name: str, acks: list[float], probes: list[float], grown: float) -> str:
    def at(times: list[float]) -> str:
        return f"p50 {times[len(times) // 2]:.3f} p99 {times[int(len(times) * 0.99)]:.3f} s"

    return f"{name:18} ack {at(acks)}  readyz {at(probes)}  memory +{grown:.0f} MiB  n {len(acks)}"


def limited(
    arguments: Sequence[str], env: Mapping[str, str], output: Path, errors: Path
) -> Running:
    """Start the service with few file descriptors; it reserves them at its start."""
    process = started(arguments, env, output, errors)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    return process


def main(seconds: float) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    with tempfile.TemporaryDirectory() as folder:
        house = House(Path(folder) / "home", program=limited)
        hl7_port = free_port()
        house.listener("web", bind=f"http://127.0.0.1:{hl7_port}/hl7")
        house.make()
        pid = house.start().process.pid
        try:
            sender = OrderSender(house, pid)
            report(line("none", *sender.measure(seconds), 0))
            for port, floods in (
                (house.http_port, HTTP_FLOODS),
                (hl7_port, HL7_FLOODS),
                (house.mllp_port, (tiny_frames,)),
            ):
                for flood in floods:
                    run(flood, port, sender, seconds)
        finally:
            house.stop()


def run(flood: Flood, port: int, sender: OrderSender, seconds: float) -> None:
    sender.memory = 0.0
    attack = multiprocessing.Process(target=flood, args=(port,), daemon=True)
    before = resident(sender.pid)
    attack.start()
    try:
        acks, probes = sender.measure(seconds)
    finally:
        attack.kill()
        attack.join()
    report(line(flood.__name__, acks, probes, sender.memory - before))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 8.0)
