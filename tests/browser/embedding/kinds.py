"""
The kinds of host that reports are embedded by, and a Chromium as each of them finds it.

Contexts that a driver makes refuse third-party cookies unless the profile's own setting says
otherwise, so that the setting is made in either case.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from playwright.sync_api import Browser, Playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MEDIA = ("--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream")
ALLOW, BLOCK = 0, 1
"""Chromium's `cookie_controls_mode`."""


class HostKind(StrEnum):
    """Under what conditions a host embeds reports; all over HTTPS but the last."""

    PLAIN = "plain"  # third-party cookies are kept
    BLOCKED = "third-party cookies blocked"
    ISOLATED = "cross-origin isolated"  # COOP same-origin, COEP require-corp
    UNENCRYPTED = "unencrypted"  # a frame of another site keeps no cookie at all

    @property
    def secure(self) -> bool:
        """Whether the engine speaks HTTPS."""
        return self is not HostKind.UNENCRYPTED


EVERYDAY = (HostKind.PLAIN, HostKind.BLOCKED, HostKind.ISOLATED)
"""What every event and action is tested under."""


@contextmanager
def browsing(driver: Playwright, kind: HostKind, profile: Path) -> Iterator[Browser]:
    """A browser whose contexts have the cookie setting of a kind."""
    mode = BLOCK if kind is HostKind.BLOCKED else ALLOW
    settings = profile / "Default" / "Preferences"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"profile": {"cookie_controls_mode": mode}}))
    own = driver.chromium.launch_persistent_context(
        str(profile), executable_path=CHROMIUM, args=["--no-sandbox", *MEDIA]
    )
    try:
        assert own.browser is not None
        yield own.browser
    finally:
        own.close()
