"""File descriptors: what each part of a process may use of a limit."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.admin.checks.descriptors import LEAST, TooFewDescriptors, share
from config import Settings
from config.listeners import ListenerSettings
from config.sections import Http


def settings(listeners: int = 500, http: int = 1000) -> Settings:
    """One listener, and the HTTP side."""
    listener = ListenerSettings.model_validate(
        {"name": "a", "bind": "127.0.0.1:2575", "max_connections": listeners}
    )
    return Settings(home=Path("/none"), listener=[listener], http=Http(max_connections=http))


def test_a_limit_that_suffices() -> None:
    """Nobody gets less than the settings say."""
    found = share(settings(), 65_536)

    assert found.suffice
    assert found.http == 1000
    assert found.listeners >= 500


@pytest.mark.parametrize("listeners", [100, 500, 5000])
@pytest.mark.parametrize("limit", [LEAST, 512, 1024, 1500])
def test_a_limit_that_does_not(limit: int, listeners: int) -> None:
    """All together stay below it, and neither side is without connections."""
    found = share(settings(listeners), limit)

    assert not found.suffice
    assert found.http >= 16
    assert found.listeners >= 16
    assert found.http + found.listeners < limit * 0.8


def test_listeners_come_first() -> None:
    """At 1024 descriptors the listeners have what they ask for; HTTP has the rest."""
    found = share(settings(), 1024)

    assert found.listeners >= 400
    assert 16 <= found.http < 500


def test_too_few() -> None:
    """The message names the limit, and how it is raised."""
    with pytest.raises(TooFewDescriptors, match=r"100 file descriptors .* LimitNOFILE"):
        share(settings(), 100)


def test_the_soft_limit_is_raised() -> None:
    """Up to the hard one."""
    program = (
        "import resource; from bridge.admin.checks.descriptors import raise_limit;"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1];"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard));"
        "print(raise_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    reached, now = map(int, ran.stdout.split())

    assert reached == now
    assert now > 300 or resource.getrlimit(resource.RLIMIT_NOFILE)[1] == 300
