"""After the story: what can be opened and tried, and results that still come."""

import asyncio
import json
import sys
from pathlib import Path

from bridge.demo import script
from bridge.demo.hospital import Result
from bridge.demo.installation import KEEPER, KEEPER_NAME, SITE, USER, Ports
from bridge.demo.script import DemoContext
from bridge.demo.stage import HOST, DemoService

_REPORTS = (
    ("Müller (addendum)", script.MUELLER),
    ("Wang (final)", script.WANG),
    ("Höß (final)", script.HOESS),
    ("Kim-Park (draft: type, sign)", script.KIM),
)


async def keep_running(
    cast: DemoContext, stage: DemoService, ports: Ports, token: str, stop: asyncio.Event
) -> None:
    """Say what there is to open, tell of each result that comes, until Ctrl-C."""
    teller = cast.teller
    teller.scene("It goes on running; Ctrl-C ends it and removes its folder")
    link = await _console_account(stage)
    links = [(name, await cast.radiologist.link(order)) for name, order in _REPORTS]
    places = [*_places(cast, stage, ports), ("x-access-token", f"{token} ({USER})")]
    console = [
        ("first", f"{link} (once: set a password)"),
        ("console", f"{ports.address}/console"),
        ("e-mail", KEEPER),
        ("what to do there", "docs/tutorial/index.md: a second sender, mapped in the console"),
    ]
    for heading, rows in (
        ("Open a report in a browser (whoever has the link may, for some hours):", links),
        ("Look after it in the console (messages, queues, mappings), with this account:", console),
        ("The rest:", places),
        ("Try, in another terminal:", _commands(cast, stage)),
    ):
        teller.say(f"\n  {heading}", "bold")
        teller.facts(rows)
    teller.say("")

    def tell(result: Result) -> None:
        note = f"OBR-25 {result.status}"
        teller.done(f"the RIS received a result for {result.accession}", note)

    cast.hospital.on_result = tell
    await stop.wait()


async def _console_account(stage: DemoService) -> str:
    """Let somebody into the console, who may do everything there; return their enrolment link."""
    home = ("--home", str(stage.home))
    await stage.bridge("user", "add", KEEPER, *home, "--name", KEEPER_NAME, "--site", SITE)
    role = ("--role", "system-administrator", "--bodies", "--json")
    granted = await stage.bridge("console", "grant", KEEPER, *home, *role)
    return str(json.loads(granted.splitlines()[-1])["link"])


def _places(cast: DemoContext, stage: DemoService, ports: Ports) -> list[tuple[str, str]]:
    senders = [(f"orders of {each.name}", f"{HOST}:{each.port}") for each in cast.systems.values()]
    return [
        ("interface", f"{ports.address}/docs"),
        ("metrics", f"{ports.address}/metrics"),
        *senders,
        ("results go to", f"{HOST}:{ports.results} (here)"),
        ("home", str(stage.home)),
        ("log", str(stage.log)),
    ]


def _commands(cast: DemoContext, stage: DemoService) -> list[tuple[str, str]]:
    script_beside = Path(sys.executable).with_name("bridge")
    command = str(script_beside) if script_beside.exists() else f"{sys.executable} -m bridge"
    sample = script.TO_TRY
    address = f"{HOST}:{cast.systems[sample.system].port}"
    return [
        ("an order", f"{command} send {address} {script.SAMPLES / sample.file}"),
        ("what came in", f"{command} messages list --home {stage.home}"),
        ("what went out", f"{command} deliveries list --home {stage.home}"),
    ]
