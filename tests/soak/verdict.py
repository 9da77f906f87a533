"""Compare the observations of a run with the guarantees."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from tests.acceptance.cluster import Cluster
from tests.acceptance.observations import delivered, listed, release
from tests.acceptance.wire import Sink
from tests.history import Event, Kind, violations
from tests.soak import trace
from tests.soak.faults import World
from tests.soak.traffic import CHANGES, OrderSender, Reader

GROWTH = 1.25  # of the memory between the second and the last quarter
ALLOWANCE = 24 * 2**20  # bytes that a short run needs to warm up


def history(
    cluster: Cluster, senders: Sequence[OrderSender], ris: Sink, reader: Reader
) -> list[str]:
    steps = {f"STEP {step}": step for step in range(CHANGES)}
    events = [
        Event(kind, order, step)
        for sender in senders
        for order, step in list(sender.latest.items())
        for kind in (Kind.SENT, Kind.ACKNOWLEDGED)
    ]
    events += [Event(Kind.SENT, report, 0) for report in reader.begun]
    events += [Event(Kind.RELEASED, report, 1) for report in reader.signed]
    events += [Event(Kind.RELEASED, report, 2) for report in reader.amended]
    for message in delivered(ris.received):
        events.append(replace(message, content=hashlib.sha256(message.content).digest()))
    return violations([*events, *listed(cluster.nodes[0], steps)])


def counts(cluster: Cluster, senders: Sequence[OrderSender]) -> list[str]:
    """Check that each message is stored once."""
    ((stored,),) = cluster.query("SELECT count(*) FROM message")
    sent = sum(sender.sent for sender in senders)
    return [] if stored == sent else [f"{stored} messages are stored and {sent} were sent"]


def texts(ris: Sink) -> list[str]:
    named = [(release(message)[0], message) for message in ris.received]
    return [
        f"{accession} has the text of another report"
        for accession, message in named
        if f"Nothing found in {accession}.".encode() not in message
    ]


def paths(cluster: Cluster, world: World) -> list[str]:
    numbers = trace.deliveries(cluster.url)
    sent = [(at, numbers[name]) for at, name in world.read if name in numbers]
    unknown = [f"{name} is no delivery" for _, name in world.read if name not in numbers]
    return unknown + trace.problems(trace.steps(cluster.url), sent)


def memory(samples: Sequence[int]) -> list[str]:
    """Check that the memory of a node (bytes, in order) did not grow."""
    quarter = len(samples) // 4
    if not quarter:
        return ["too few memory samples"]
    before, after = median(samples[quarter : 2 * quarter]), median(samples[-quarter:])
    if after > before * GROWTH + ALLOWANCE:
        return [f"memory grew from {before / 2**20:.0f} to {after / 2**20:.0f} MiB"]
    return []
