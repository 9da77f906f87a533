"""The running demonstration: links and commands to try, and further results."""

import asyncio
import json
import sys
from pathlib import Path

from bridge.demo import script
from bridge.demo.hospital import Result
from bridge.demo.installation import OPERATOR, OPERATOR_NAME, SITE, USER, Ports
from bridge.demo.script import DemoContext
from bridge.demo.service import HOST, DemoService

_REPORTS = (
    ("Müller (addendum)", script.MUELLER),
    ("Wang (final)", script.WANG),
    ("Höß (final)", script.HOESS),
    ("Kim-Park (draft: type, sign)", script.KIM),
)


async def keep_running(
    context: DemoContext, service: DemoService, ports: Ports, token: str, stop: asyncio.Event
) -> None:
    """Print links and commands, and each further result, until Ctrl-C."""
    narrator = context.narrator
    narrator.scene("The service keeps running; Ctrl-C ends it and removes its folder")
    link = await _console_account(service)
    links = [(name, await context.radiologist.link(order)) for name, order in _REPORTS]
    places = [*_places(context, service, ports), ("x-access-token", f"{token} ({USER})")]
    console = [
        ("first", f"{link} (once: set a password)"),
        ("console", f"{ports.address}/console"),
        ("e-mail", OPERATOR),
        ("what to do there", "docs/tutorial/index.md: a second sender, mapped in the console"),
    ]
    for heading, rows in (
        ("Open a report in a browser (anybody with the link can, for some hours):", links),
        ("Open the console (messages, queues, mappings) with this account:", console),
        ("The rest:", places),
        ("Try, in another terminal:", _commands(context, service)),
    ):
        narrator.say(f"\n  {heading}", "bold")
        narrator.facts(rows)
    narrator.say("")

    def print_result(result: Result) -> None:
        note = f"OBR-25 {result.status}"
        narrator.done(f"the RIS received a result for {result.accession}", note)

    context.hospital.on_result = print_result
    await stop.wait()


async def _console_account(service: DemoService) -> str:
    """Create a system administrator of the console; return the enrolment link."""
    home = ("--home", str(service.home))
    await service.bridge("user", "add", OPERATOR, *home, "--name", OPERATOR_NAME, "--site", SITE)
    role = ("--role", "system-administrator", "--bodies", "--json")
    granted = await service.bridge("console", "grant", OPERATOR, *home, *role)
    return str(json.loads(granted.splitlines()[-1])["link"])


def _places(context: DemoContext, service: DemoService, ports: Ports) -> list[tuple[str, str]]:
    senders = [
        (f"orders of {each.name}", f"{HOST}:{each.port}") for each in context.systems.values()
    ]
    return [
        ("interface", f"{ports.address}/docs"),
        ("metrics", f"{ports.address}/metrics"),
        *senders,
        ("results go to", f"{HOST}:{ports.results} (here)"),
        ("home", str(service.home)),
        ("log", str(service.log)),
    ]


def _commands(context: DemoContext, service: DemoService) -> list[tuple[str, str]]:
    script_beside = Path(sys.executable).with_name("bridge")
    command = str(script_beside) if script_beside.exists() else f"{sys.executable} -m bridge"
    sample = script.TO_TRY
    address = f"{HOST}:{context.systems[sample.system].port}"
    return [
        ("an order", f"{command} send {address} {script.SAMPLES / sample.file}"),
        ("what came in", f"{command} messages list --home {service.home}"),
        ("what went out", f"{command} deliveries list --home {service.home}"),
    ]
