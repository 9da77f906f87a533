"""The scenes of the demonstration, from installation to stop, and the summary."""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from bridge.demo import orders, reports, script
from bridge.demo.checks import expect, until
from bridge.demo.hospital import Hospital, Result, System
from bridge.demo.installation import SIGN_DELAY, SITE, USER, USER_NAME, Ports, settings
from bridge.demo.narration import Narrator
from bridge.demo.radiologist import Radiologist, WorklistReport
from bridge.demo.script import DemoContext
from bridge.demo.service import HOST, DemoService

_STATUSES: Mapping[str, str] = {"P": "preliminary", "F": "final", "C": "with addendum"}


def summary(context: DemoContext, reports: Sequence[WorklistReport]) -> list[tuple[str, str, str]]:
    """Return the rows of the summary: name, value, and parts."""
    statistics, results = context.statistics, context.hospital.results
    senders = [
        f"{name} ({context.systems[name].charset}) {count}"
        for name, count in statistics.senders.items()
    ]
    statuses = Counter(each.status for each in reports)
    return [
        ("Order messages in", str(statistics.orders.total()), _parts(statistics.orders)),
        ("Patient messages in", str(statistics.patients.total()), _parts(statistics.patients)),
        ("Senders", str(len(senders)), ", ".join(senders)),
        ("ACKs", str(statistics.acks.total()), _parts(statistics.acks)),
        ("Reports", str(len(reports)), _parts(statuses)),
        ("ORUs out", str(len(results)), _parts(_kinds(results))),
        ("Sign to ORU", _milliseconds(median(statistics.seconds)), _latency(statistics.seconds)),
    ]


def _kinds(results: Sequence[Result]) -> Counter[str]:
    return Counter(_STATUSES.get(each.status, each.status) for each in results)


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
    await orders.orders_arrive(context)
    await orders.orders_change(context)
    await orders.hospital_errs(context)
    await reports.reports_are_read(context)
    await reports.signature_is_recalled(context)
    await reports.signed_again(context)


async def settle(context: DemoContext, service: DemoService) -> list[tuple[str, str, str]]:
    """Check that no work is left; return the rows of the summary."""
    context.narrator.scene("Nothing is left over")
    ids = [each.message.header.control_id for each in context.hospital.results]
    expect("control ids of the results, all different", len(ids), len(set(ids)))

    async def states() -> set[str]:
        command = ("deliveries", "list", "--home", str(service.home), "--json")
        rows: list[dict[str, Any]] = json.loads(await service.bridge(*command))
        # A cancelled order is not reported to receivers that got no result of it.
        owed = [row["state"] for row in rows if row["state"] != "ignored"]
        expect("deliveries", len(ids), len(owed))
        return set(owed)

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
