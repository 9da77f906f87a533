"""Rates, sizes and lifetimes of the internal engine are settings; the engine has the defaults."""

from dataclasses import asdict
from pathlib import Path

import pytest

from bridge.engine import settings as engine
from config.errors import SettingsError
from config.report_engine import LifetimeSettings, Rates, Sizes
from config.settings import parse

LIMITS = """\
[rates]
launches = 10
[sizes]
body = "1MiB"
[lifetimes]
frame_link = "1h"
session_idle = "5m"
"""


def test_limits_are_read(tmp_path: Path) -> None:
    """Sizes and durations have units; a missing setting has its default."""
    settings = parse(LIMITS, tmp_path, tmp_path / "bridge.toml")
    assert (settings.rates.launches, settings.rates.reads) == (10, 6000)
    assert settings.sizes.body == 2**20
    assert (settings.lifetimes.frame_link, settings.lifetimes.session_idle) == (3600, 300)


def test_the_environment_reaches_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BRIDGE_RATES__EXPORTS=0 switches that limit off."""
    monkeypatch.setenv("BRIDGE_RATES__EXPORTS", "0")
    assert parse(LIMITS, tmp_path, tmp_path / "bridge.toml").rates.exports == 0


@pytest.mark.parametrize(
    "text",
    [
        "[rates]\nreads = -1\n", "[rates]\nread = 1\n", '[sizes]\nbody = "big"\n',
        "[sizes]\nlink_list = 1\n", '[lifetimes]\nsession_idle = "9h"\n',
        '[lifetimes]\nsession_link = "1h"\n',
    ],
)  # fmt: skip
def test_invalid_limits_are_refused(tmp_path: Path, text: str) -> None:
    """Unknown keys and impossible values. The lifetime of a session link is not a setting."""
    with pytest.raises(SettingsError):
        parse(text, tmp_path, tmp_path / "bridge.toml")


def test_the_defaults_are_those_of_the_engine() -> None:
    """An engine without settings has the limits of one with an empty settings file."""
    own = asdict(engine.RateLimits())
    assert {name: own[name]["count"] for name in own} == Rates().model_dump()
    sizes, lives = asdict(engine.SizeLimits()), asdict(engine.AccessLifetimes())
    assert {name: sizes[name] for name in Sizes.model_fields} == Sizes().model_dump()
    assert {
        name: lives[name] for name in LifetimeSettings.model_fields
    } == LifetimeSettings().model_dump()
