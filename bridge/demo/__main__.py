"""
`python -m bridge.demo [--keep]`: play the story; `make demo` calls it.

Exit status 0: every step held. 1: one did not. 130: interrupted before the end.
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
from bridge.demo.afterwards import keep_running
from bridge.demo.checks import unless_over
from bridge.demo.errors import DemoError, Interrupted
from bridge.demo.hospital import Hospital
from bridge.demo.installation import Ports
from bridge.demo.narration import Narrator
from bridge.demo.radiologist import Radiologist
from bridge.demo.stage import DemoService, free_ports
from bridge.runtime.loop import run

FAILED, INTERRUPTED = 1, 130


async def demonstrate(teller: Narrator, stop: asyncio.Event, *, keep: bool) -> int:
    """Play the whole story and clean up, whatever happens; return the exit status."""
    from twisted.internet import reactor  # noqa: PLC0415  # installed by now

    async with DemoService() as stage:
        try:
            await _play(teller, stage, reactor, stop, keep=keep)
        except Interrupted:
            teller.say("\nInterrupted: stopping the service and removing its folder.")
            return INTERRUPTED
        except (DemoError, httpx.HTTPError, OSError) as error:
            teller.failed(str(error) or type(error).__name__, stage.last_lines())
            return FAILED
        except Exception:  # noqa: BLE001  # whoever watches must see the log and an end
            teller.failed(traceback.format_exc(), stage.last_lines())
            return FAILED
    return 0


async def _play(
    teller: Narrator, stage: DemoService, reactor: Any, stop: asyncio.Event, *, keep: bool
) -> None:
    story.read_samples()
    ports = Ports(*free_ports(4))
    hospital = Hospital(reactor)
    hospital.listen(ports.results)
    token = await unless_over(story.install(teller, stage, ports), stop, stage.ended)
    async with Radiologist(ports.address, token) as radiologist:
        cast = story.engage(teller, hospital, ports, radiologist)
        await unless_over(story.play(cast), stop, stage.ended)
        rows = await unless_over(story.settle(cast, stage), stop, stage.ended)
        if not keep:
            await story.close(teller, stage)
        teller.table(rows)
        teller.say(f"All as it should be, in {teller.seconds:.0f} s.", "bold green")
        if keep:
            with suppress(Interrupted):
                await unless_over(keep_running(cast, stage, ports, token, stop), stop, stage.ended)
            teller.say("\nStopping the service and removing its folder.")


def main() -> None:
    """Read the arguments, run the story on the shared loop, exit with its status."""
    parser = argparse.ArgumentParser(
        prog="python -m bridge.demo",
        description="The whole story over real sockets: orders in, reports read, results out.",
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave it running and print what can be opened"
    )
    keep: bool = parser.parse_args().keep
    teller = Narrator()
    teller.title(
        "Report Bridge, the whole story",
        "The real service in a temporary folder; a stand-in hospital talks to it over",
        "MLLP, a stand-in radiologist over HTTP. Each ✓ was checked. Nobody is real.",
    )

    async def whole(stop: asyncio.Event) -> int:
        with suppress(NotImplementedError, AttributeError):  # Windows
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, stop.set)
        return await demonstrate(teller, stop, keep=keep)

    sys.exit(run(whole))


if __name__ == "__main__":
    main()
