"""
`python -m bridge.demo [--keep]`: run the demonstration; `make demo` calls it.

Exit status 0: every step succeeded. 1: a step failed. 130: interrupted.
"""

import argparse
import asyncio
import json
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from bridge.demo import script, story
from bridge.demo.installation import (
    HOST,
    OPERATOR,
    OPERATOR_NAME,
    SITE,
    USER,
    DemoService,
    Ports,
    free_ports,
)
from bridge.demo.narration import DemoError, Interrupted, Narrator, run_until_end
from bridge.demo.participants import Hospital, Radiologist, Result
from bridge.demo.script import DemoContext
from bridge.runtime.loop import run

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
        (f"orders of {system.name}", f"{HOST}:{system.port}") for system in context.systems.values()
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


FAILED, INTERRUPTED = 1, 130


async def demonstrate(narrator: Narrator, stop: asyncio.Event, *, keep: bool) -> int:
    """Run the demonstration and clean up; return the exit status."""
    from twisted.internet import reactor  # noqa: PLC0415  # installed by the loop

    async with DemoService() as service:
        try:
            await _play(narrator, service, reactor, stop, keep=keep)
        except Interrupted:
            narrator.say("\nInterrupted: stopping the service and removing its folder.")
            return INTERRUPTED
        except (DemoError, httpx.HTTPError, OSError) as error:
            narrator.failed(str(error) or type(error).__name__, service.last_lines())
            return FAILED
        except Exception:  # noqa: BLE001  # the output must show the log and the reason
            narrator.failed(traceback.format_exc(), service.last_lines())
            return FAILED
    return 0


async def _play(
    narrator: Narrator, service: DemoService, reactor: Any, stop: asyncio.Event, *, keep: bool
) -> None:
    story.read_samples()
    ports = Ports(*free_ports(4))
    hospital = Hospital(reactor)
    hospital.listen(ports.results)
    token = await run_until_end(story.install(narrator, service, ports), stop, service.ended)
    async with Radiologist(ports.address, token) as radiologist:
        context = story.make_context(narrator, hospital, ports, radiologist)
        await run_until_end(story.play(context), stop, service.ended)
        rows = await run_until_end(story.settle(context, service), stop, service.ended)
        if not keep:
            await story.close(narrator, service)
        narrator.table(rows)
        narrator.say(f"All as it should be, in {narrator.seconds:.0f} s.", "bold green")
        if keep:
            with suppress(Interrupted):
                await run_until_end(
                    keep_running(context, service, ports, token, stop), stop, service.ended
                )
            narrator.say("\nStopping the service and removing its folder.")


def main() -> None:
    """Parse the arguments, run the demonstration on the shared loop, and exit with its status."""
    parser = argparse.ArgumentParser(
        prog="python -m bridge.demo",
        description="The whole story over real sockets: orders in, reports read, results out.",
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave it running and print what can be opened"
    )
    keep: bool = parser.parse_args().keep
    narrator = Narrator()
    narrator.title(
        "Report Bridge, the whole story",
        "The real service in a temporary folder; a stand-in hospital talks to it over",
        "MLLP, a stand-in radiologist over HTTP. Each ✓ was checked. Nobody is real.",
    )

    async def whole(stop: asyncio.Event) -> int:
        with suppress(NotImplementedError, AttributeError):  # Windows
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, stop.set)
        return await demonstrate(narrator, stop, keep=keep)

    sys.exit(run(whole))


if __name__ == "__main__":
    main()
