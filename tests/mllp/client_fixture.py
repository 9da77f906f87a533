"""A client under test, and the server ends of its connections."""

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from typing_extensions import override

from mllp.client import MLLPClient
from mllp.contract import ClientObserver
from mllp.testing import MemoryEndpoint, RawConnection, deliver_all


class RecordingObserver(ClientObserver):
    def __init__(self) -> None:
        self.events: list[object] = []

    @override
    def connected(self) -> None:
        self.events.append("connected")

    @override
    def connect_failed(self, attempt: int) -> None:
        self.events.append(attempt)

    @override
    def disconnected(self) -> None:
        self.events.append("disconnected")

    @override
    def noise(self, length: int) -> None:
        self.events.append(("noise", length))

    @override
    def unexpected_frame(self) -> None:
        self.events.append("unexpected")


class Outcome:
    def __init__(self, result: Deferred[bytes]) -> None:
        self.value: bytes | None = None
        self.error: BaseException | None = None
        result.addCallbacks(self._succeeded, self._failed)

    def _succeeded(self, value: bytes) -> None:
        self.value = value

    def _failed(self, failure: Failure) -> None:
        self.error = failure.value

    @property
    def pending(self) -> bool:
        return self.value is None and self.error is None


class ClosingReceiver(RawConnection):
    @override
    def connectionMade(self) -> None:
        self.close()


class ClientHarness:
    """A client and the server ends of its connections. The test acts as the receiver."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.endpoint = MemoryEndpoint(clock)
        self.observer = RecordingObserver()
        self.client = MLLPClient(
            self.endpoint,
            clock=clock,
            reply_timeout=30,
            connect_timeout=10,
            max_frame=1000,
            reply_matches=lambda sent, reply: reply.split()[1] == sent,
            backoff=lambda attempt: float(2**attempt),
            observer=self.observer,
        )

    def send(self, payload: bytes) -> Outcome:
        outcome = Outcome(self.client.send(payload))
        deliver_all(self.clock)
        return outcome

    @property
    def receivers(self) -> list[RawConnection]:
        return self.endpoint.accepted

    def reply(self, payload: bytes) -> None:
        self.receivers[-1].send(payload)
        deliver_all(self.clock)

    def write(self, data: bytes) -> None:
        self.receivers[-1].write(data)
        deliver_all(self.clock)
