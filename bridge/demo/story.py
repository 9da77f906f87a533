"""The demonstration from its first scene to its last; each scene checks what it tells."""

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
from bridge.demo.stage import HOST, DemoService

_STATUSES: Mapping[str, str] = {"P": "preliminary", "F": "final", "C": "with addendum"}


def summary(cast: DemoContext, reports: Sequence[WorklistReport]) -> list[tuple[str, str, str]]:
    """Return the rows: what, how much, and of what it is made."""
    score, results = cast.score, cast.hospital.results
    senders = [
        f"{name} ({cast.systems[name].charset}) {count}" for name, count in score.senders.items()
    ]
    statuses = Counter(each.status for each in reports)
    return [
        ("Order messages in", str(score.orders.total()), _parts(score.orders)),
        ("Patient messages in", str(score.patients.total()), _parts(score.patients)),
        ("Senders", str(len(senders)), ", ".join(senders)),
        ("ACKs", str(score.acks.total()), _parts(score.acks)),
        ("Reports", str(len(reports)), _parts(statuses)),
        ("ORUs out", str(len(results)), _parts(_kinds(results))),
        ("Sign to ORU", _milliseconds(median(score.seconds)), _latency(score.seconds)),
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
    """Read all that will be sent, before anything is started. Raises SamplesMissing."""
    for sample in (*script.NEW, *script.CHANGED, script.AGAIN, *script.REFUSED):
        sample.read()


async def install(teller: Narrator, stage: DemoService, ports: Ports) -> str:
    """Make a home, serve it, and return the token of its user."""
    teller.scene("An installation of its own, made with the bridge command")
    home = ("--home", str(stage.home))
    await stage.bridge("init", str(stage.home))
    (stage.home / "bridge.toml").write_text(settings(ports), "utf-8")
    teller.done("bridge init: settings, mappings, secrets", "SQLite")
    await stage.bridge("site", "add", SITE, *home, "--sign-delay", str(SIGN_DELAY),
                       "--time-zone", "Europe/Zurich", "--name", "North Radiology")  # fmt: skip
    teller.done(f"bridge site add {SITE}", f"sign delay {SIGN_DELAY} s")
    teller.begun("bridge serve: starting …")
    serving = asyncio.ensure_future(stage.serve(ports.address))
    try:
        who = (USER, *home, "--name", USER_NAME, "--site", SITE, "--admin")
        await stage.bridge("user", "add", *who)
        teller.done(f"bridge user add {USER}", USER_NAME)
        token = (await stage.bridge("token", "create", *home, "--user", USER)).strip()
        teller.done("bridge token create", "for the host application")
        await serving
    finally:
        serving.cancel()
    teller.done("bridge serve is ready", f"{HOST}:{ports.web}")
    return token


async def play(cast: DemoContext) -> None:
    """Play all scenes with a running service."""
    for system in cast.systems.values():
        cast.teller.done(f"listens for {system.name} ({system.charset})", f"{HOST}:{system.port}")
    await orders.orders_arrive(cast)
    await orders.orders_change(cast)
    await orders.hospital_errs(cast)
    await reports.reports_are_read(cast)
    await reports.signature_is_recalled(cast)
    await reports.signed_again(cast)


async def settle(cast: DemoContext, stage: DemoService) -> list[tuple[str, str, str]]:
    """See that nothing is left over; return the rows of the summary."""
    cast.teller.scene("Nothing is left over")
    ids = [each.message.header.control_id for each in cast.hospital.results]
    expect("control ids of the results, all different", len(ids), len(set(ids)))

    async def states() -> set[str]:
        command = ("deliveries", "list", "--home", str(stage.home), "--json")
        rows: list[dict[str, Any]] = json.loads(await stage.bridge(*command))
        # A cancelled order owes nothing to those who were told no result of it.
        owed = [row["state"] for row in rows if row["state"] != "ignored"]
        expect("deliveries", len(ids), len(owed))
        return set(owed)

    await until("deliveries done", states, lambda found: found == {"done"})
    cast.teller.done("bridge deliveries list: each went out once and was accepted", f"{len(ids)}")
    expect("results that nobody expected", 0, len(cast.hospital.unasked))
    return summary(cast, await cast.radiologist.worklist())


async def close(teller: Narrator, stage: DemoService) -> None:
    """Stop the service as a process manager does."""
    expect("exit status of bridge serve after SIGTERM", 0, await stage.stop())
    teller.done("bridge serve drained and ended after SIGTERM", "exit 0")


def systems(ports: Ports) -> dict[str, System]:
    """Return the two senders by name."""
    return {
        script.RIS_A: System(script.RIS_A, "UTF-8", ports.ris_a),
        script.HIS_B: System(script.HIS_B, "8859/1", ports.his_b),
    }


def engage(
    teller: Narrator, hospital: Hospital, ports: Ports, radiologist: Radiologist
) -> DemoContext:
    """Bring everybody together."""
    return DemoContext(teller, hospital, systems(ports), radiologist)
