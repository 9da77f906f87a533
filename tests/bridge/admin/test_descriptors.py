"""File descriptors: the share of each part of a process."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.admin.checks.descriptors import MIN_LIMIT, TooFewDescriptors, allocate_descriptors
from config import Settings
from config.listeners import ListenerSettings
from config.sections import Http


def settings(listeners: int = 500, http: int = 1000) -> Settings:
    listener = ListenerSettings.model_validate(
        {"name": "a", "bind": "127.0.0.1:2575", "max_connections": listeners}
    )
    return Settings(home=Path("/none"), listener=[listener], http=Http(max_connections=http))


def test_a_limit_that_suffices() -> None:
    shares = allocate_descriptors(settings(), 65_536)

    assert shares.suffice
    assert shares.http == 1000
    assert shares.listeners >= 500


@pytest.mark.parametrize("listeners", [100, 500, 5000])
@pytest.mark.parametrize("limit", [MIN_LIMIT, 512, 1024, 1500])
def test_a_low_limit(limit: int, listeners: int) -> None:
    """All parts together stay below the limit, and each side has connections."""
    shares = allocate_descriptors(settings(listeners), limit)

    assert not shares.suffice
    assert shares.http >= 16
    assert shares.listeners >= 16
    assert shares.http + shares.listeners < limit * 0.8


def test_listeners_come_first() -> None:
    """At 1024 descriptors the listeners get their number, and HTTP the rest."""
    shares = allocate_descriptors(settings(), 1024)

    assert shares.listeners >= 400
    assert 16 <= shares.http < 500


def test_one_source_gets_half_of_few_http_connections() -> None:
    """One source cannot use all connections, unless the settings allow it."""
    shares = allocate_descriptors(settings(), 1024)
    assert 250 > shares.http_per_source == shares.http // 2
    assert allocate_descriptors(settings(), 65_536).http_per_source == 250

    http = Http(max_connections=1000, max_connections_per_source=1000)
    shares = allocate_descriptors(settings().model_copy(update={"http": http}), 1024)
    assert shares.http_per_source == shares.http


def test_too_few() -> None:
    """The error names the limit and how to raise it."""
    with pytest.raises(TooFewDescriptors, match=r"100 file descriptors .* LimitNOFILE"):
        allocate_descriptors(settings(), 100)


def test_the_soft_limit_is_raised() -> None:
    """The process raises the soft limit to the hard limit."""
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
