"""
The kinds of host that embed reports, and a Chromium with the settings of each kind.

A context that Playwright creates blocks third-party cookies unless the profile allows them, so the
profile always has the setting.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from playwright.sync_api import Browser, Playwright

from tests.programs import CHROMIUM

MEDIA = ("--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream")
ALLOW, BLOCK = 0, 1
"""Chromium's `cookie_controls_mode`."""


class HostKind(StrEnum):
    """The conditions under which a host embeds reports; all over HTTPS except the last."""

    PLAIN = "plain"  # third-party cookies allowed
    BLOCKED = "third-party cookies blocked"
    ISOLATED = "cross-origin isolated"  # COOP same-origin, COEP require-corp
    UNENCRYPTED = "unencrypted"  # a cross-site frame has no cookies

    @property
    def secure(self) -> bool:
        return self is not HostKind.UNENCRYPTED


DEFAULT_KINDS = (HostKind.PLAIN, HostKind.BLOCKED, HostKind.ISOLATED)
"""The kinds with which the tests of events and actions run."""


@contextmanager
def browsing(driver: Playwright, kind: HostKind, profile: Path) -> Iterator[Browser]:
    mode = BLOCK if kind is HostKind.BLOCKED else ALLOW
    settings = profile / "Default" / "Preferences"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"profile": {"cookie_controls_mode": mode}}))
    own = driver.chromium.launch_persistent_context(
        str(profile), executable_path=CHROMIUM.path, args=["--no-sandbox", *MEDIA]
    )
    try:
        assert own.browser is not None
        yield own.browser
    finally:
        own.close()
