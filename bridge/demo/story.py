"""The demonstration from its first scene to its last; each scene checks what it tells."""

import asyncio
import json
from typing import Any

from bridge.demo import ordering, reporting, script
from bridge.demo.cast import Cast
from bridge.demo.checking import expect, until
from bridge.demo.hospital import Hospital, System
from bridge.demo.installation import SIGN_DELAY, SITE, USER, USER_NAME, Ports, settings
from bridge.demo.radiologist import Radiologist
from bridge.demo.stage import HOST, Stage
from bridge.demo.summary import summary
from bridge.demo.telling import Teller


def read_samples() -> None:
    """Read all that will be sent, before anything is started. Raises SamplesMissing."""
    for sample in (*script.NEW, *script.CHANGED, script.AGAIN, *script.REFUSED):
        sample.read()


async def install(teller: Teller, stage: Stage, ports: Ports) -> str:
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


async def play(cast: Cast) -> None:
    """Play all scenes with a running service."""
    for system in cast.systems.values():
        cast.teller.done(f"listens for {system.name} ({system.charset})", f"{HOST}:{system.port}")
    await ordering.orders_arrive(cast)
    await ordering.orders_change(cast)
    await ordering.hospital_errs(cast)
    await reporting.reports_are_read(cast)
    await reporting.signature_is_recalled(cast)
    await reporting.signed_again(cast)


async def settle(cast: Cast, stage: Stage) -> list[tuple[str, str, str]]:
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


async def close(teller: Teller, stage: Stage) -> None:
    """Stop the service as a process manager does."""
    expect("exit status of bridge serve after SIGTERM", 0, await stage.stop())
    teller.done("bridge serve drained and ended after SIGTERM", "exit 0")


def systems(ports: Ports) -> dict[str, System]:
    """Return the two senders by name."""
    return {
        script.RIS_A: System(script.RIS_A, "UTF-8", ports.ris_a),
        script.HIS_B: System(script.HIS_B, "8859/1", ports.his_b),
    }


def engage(teller: Teller, hospital: Hospital, ports: Ports, radiologist: Radiologist) -> Cast:
    """Bring everybody together."""
    return Cast(teller, hospital, systems(ports), radiologist)
