"""
`python -m bridge.demo [--keep]`: run the demonstration; `make demo` calls it.

Exit status 0: every step succeeded. 1: a step failed. 130: interrupted.
"""

import argparse
import asyncio
import signal
import sys
import traceback
from contextlib import suppress
from typing import Any

import httpx

from bridge.demo import story
from bridge.demo.checks import run_until_end
from bridge.demo.errors import DemoError, Interrupted
from bridge.demo.hospital import Hospital
from bridge.demo.inspection import keep_running
from bridge.demo.installation import Ports
from bridge.demo.narration import Narrator
from bridge.demo.radiologist import Radiologist
from bridge.demo.service import DemoService, free_ports
from bridge.runtime.loop import run

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
