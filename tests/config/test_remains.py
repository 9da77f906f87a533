"""What is left of settings beside their mistakes."""

from pathlib import Path

import pytest

from bridge.wiring.checks import check_home
from config.remains import remains

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
    """A home with settings and no mappings."""
    (folder / "bridge.toml").write_text(text, "utf-8")
    return folder


def test_only_what_is_wrong_is_left_out(tmp_path: Path) -> None:
    """A wrong value has its default, what cannot be as a whole is gone, the rest is as it says."""
    left = remains(home(tmp_path, WRONG))
    assert left is not None
    assert [each.name for each in left.listener] == ["one"]
    assert left.listener[0].charset == "klingon"
    assert left.listener[0].max_frame == 16 * 2**20
    assert left.destination[0].mapping == "nowhere"


@pytest.mark.parametrize("text", ["[[listener]\n", '[[listener]]\nname = "é'])
def test_what_is_no_toml_leaves_nothing(tmp_path: Path, text: str) -> None:
    """There is nothing to look at."""
    assert remains(home(tmp_path, text)) is None


def test_mistakes_of_every_kind_are_told_at_once(tmp_path: Path) -> None:
    """A wrong value does not hide a charset that nobody knows, or a mapping that is not there."""
    told = " ".join(each.message for each in check_home(home(tmp_path, WRONG)))
    for word in ("colour", "log.level", "max_frame", "replies", "charset", "nowhere"):
        assert word in told
