"""Settings with mistakes: the valid part is read, and all mistakes are reported at once."""

from pathlib import Path

import pytest

from bridge.admin.checks.checks import CheckSeverity, check_home
from config.example import render_new
from config.settings import further_mistakes, valid_settings

WRONG = """
colour = "blue"
[log]
level = "loud"
[[listener]]
name = "one"
bind = "127.0.0.1:2575"
site = "S"
max_frame = "much"
charset = "klingon"
[[listener]]
name = "two"
bind = "127.0.0.1:2576"
acknowledge = "stored"
replies = "order"
[[destination]]
name = "three"
address = "127.0.0.1:1"
mapping = "nowhere"
"""


def home(folder: Path, text: str) -> Path:
    """Create a data directory with settings and without mappings."""
    (folder / "bridge.toml").write_text(text, "utf-8")
    return folder


def test_only_invalid_parts_are_left_out(tmp_path: Path) -> None:
    """An invalid value becomes its default. A section with conflicts is dropped. The rest stays."""
    left = valid_settings(home(tmp_path, WRONG))
    assert left is not None
    assert [listener.name for listener in left.listener] == ["one"]
    assert left.listener[0].charset == "klingon"
    assert left.listener[0].max_frame == 16 * 2**20
    assert left.destination[0].mapping == "nowhere"


@pytest.mark.parametrize("text", ["[[listener]\n", '[[listener]]\nname = "é'])
def test_a_line_that_is_not_toml_is_left_out(tmp_path: Path, text: str) -> None:
    left = valid_settings(home(tmp_path, f'[log]\nlevel = "debug"\n{text}'))
    assert left is not None
    assert left.log.level == "debug"


def test_mistakes_of_every_kind_are_reported_at_once(tmp_path: Path) -> None:
    """A wrong value does not hide an unknown charset or a missing mapping."""
    report = " ".join(finding.message for finding in check_home(home(tmp_path, f"port : 7{WRONG}")))
    assert "Expected '='" in report
    for word in ("colour", "log.level", "max_frame", "replies", "charset", "nowhere"):
        assert word in report


def test_mistakes_after_lines_that_are_not_toml(tmp_path: Path) -> None:
    """The report names every such line, and the mistakes of the other lines, with their places."""
    file = tmp_path / "bridge.toml"
    lines = ["[[listener]]", 'name = "a"', "idle_timeout = ", 'bind = "127.0.0.1:0"']
    file.write_text("\n".join([*lines, "[http]", 'bind = "x"', "port : 7", ""]), "utf-8")
    found = [mistake.place.removeprefix(f"{file}:") for mistake in further_mistakes(tmp_path)]
    assert found == ["3:16", "7:6", "6:1"]
    left = valid_settings(tmp_path)
    assert left is not None
    assert [listener.name for listener in left.listener] == ["a"]


def test_a_file_that_is_not_toml_at_all(tmp_path: Path) -> None:
    """The number of reported mistakes is limited, and no settings are returned."""
    (tmp_path / "bridge.toml").write_text("=\n" * 500, "utf-8")
    assert len(further_mistakes(tmp_path)) <= 21
    assert valid_settings(tmp_path) is None


@pytest.mark.parametrize("value", ["auto", "always", "never"])
def test_a_setting_without_effect_is_reported(tmp_path: Path, value: str) -> None:
    """Older settings with it still load. The settings of a new data directory do not contain it."""
    settings = home(tmp_path, f'[engine]\nsecond_process = "{value}"\n')
    (found,) = [finding for finding in check_home(settings) if "second_process" in finding.place]
    assert (found.severity, found.message) == (
        CheckSeverity.WARNING,
        "has no effect since 2026-11-24: use the roles of `bridge serve`",
    )
    assert "second_process" not in render_new()
