"""An examination as a whole, with its times and its number of messages."""

from collections.abc import Callable

from bridge.admin.examination.receiver import ReceiverExamination, ReceiverOptions
from bridge.admin.examination.results import Examination, ProbeResult
from bridge.admin.examination.sender import SenderExamination, SenderOptions
from bridge.admin.examination.wire import Target

Progress = Callable[[ProbeResult], None]
Clock = Callable[[], int]


async def examine_receiver(
    target: Target, options: ReceiverOptions, progress: Progress, now: Clock
) -> Examination:
    """Examine a receiver; `progress` gets each result at once. `now` is in milliseconds."""
    began, state, results = now(), ReceiverExamination(target, options), []
    async for result in state.run():
        progress(result)
        results.append(result)
    sent = state.messages.count
    return Examination(target.address, "receiver", began, now(), sent, tuple(results))


async def examine_sender(
    host: str | None,
    port: int,
    options: SenderOptions,
    progress: Progress,
    now: Clock,
    listens: Callable[[], None] = lambda: None,
) -> Examination:
    """
    Listen for a sender and examine it; `listens` is called when the port is open.

    Without a host it listens on all addresses. Raises OSError if the port cannot be used.
    """
    began, state, results = now(), SenderExamination(options), []
    async for result in state.run(host, port, listens):
        progress(result)
        results.append(result)
    shown = f"[{host}]" if host and ":" in host else host or "*"
    address = f"{shown}:{state.port}"
    return Examination(address, "sender", began, now(), state.received, tuple(results))
