"""The rendering options of a destination: reading, checking, and their effect on a mapping."""

from pathlib import Path
from typing import Any

import pytest

from bridge.admin.installation.data_directory import create_data_directory
from bridge.delivery.destination_settings import (
    NotRendered,
    compile_outbound,
    make_destination,
    rendering_options,
)
from config.sections import Rendering
from config.settings import Settings, parse
from config.toml_text import SettingsError
from mappings.outbound.results import ResultEvent

DESTINATION = '[[destination]]\nname = "ris"\naddress = "127.0.0.1:2576"\n'


def read(home: Path, *lines: str) -> Settings:
    text = DESTINATION + "".join(f"{line}\n" for line in lines)
    return parse(text, home, home / "bridge.toml")


WRONG = {
    'version = "2.5.2"': "destination.1.version",
    'layout = "block"': "destination.1.layout",
    'addenda = "newst"': "destination.1.addenda",
    'orders = "seperate"': "destination.1.orders",
    'content = ["docx"]': "destination.1.content.1",
    "content = []": "destination.1.content",
    'interpreter = "cn"': "destination.1.interpreter",
    'times = "utc"': "destination.1.times",
    'echo = "all"': "destination.1.echo",
    'metadata = { Room = "OBX-5" }': "destination.1.metadata.Room",
    'time_zone = "Mars/Base"': "destination.1.time_zone",
    'verson = "2.3"': "destination.1.verson",
}
INSIDE = {"destination.1.content.1": 12, "destination.1.metadata.Room": 14}
"""The column of a mistake in a list or a table."""


@pytest.mark.parametrize(("line", "name"), WRONG.items())
def test_an_unknown_option_or_value(tmp_path: Path, line: str, name: str) -> None:
    """It is a mistake with its place."""
    with pytest.raises(SettingsError) as raised:
        read(tmp_path, "", line)
    (mistake,) = raised.value.mistakes
    assert mistake.place.endswith(f"bridge.toml:5:{INSIDE.get(name, 1)}")
    assert mistake.message.startswith(f"{name}: ")


def test_no_options() -> None:
    """A destination without rendering options does not change its mapping."""
    assert rendering_options(Rendering()) == {}


def compiled(home: Path, *lines: str) -> Any:
    create_data_directory(home)
    settings = read(home, *lines)
    return compile_outbound(settings, settings.destination[0])


def test_an_older_settings_file_keeps_its_meaning(tmp_path: Path) -> None:
    """Without rendering options a result has one OBX per line."""
    (results,) = compiled(tmp_path)
    assert results.name == "results"
    assert results.style.layout.layout == "lines"


def test_addenda_as_documents(tmp_path: Path) -> None:
    """`addenda = "mdm"`: MDM for addenda and retractions, ORU for all other events."""
    documents, results, status = compiled(
        tmp_path, 'addenda = "mdm"', 'version = "2.4"', 'events = ["final", "addendum", "recall"]'
    )
    assert documents.events == {ResultEvent.ADDENDUM, ResultEvent.RETRACTION}
    assert {document.style.version for document in (documents, results, status)} == {"2.4"}
    made = make_destination(
        read(tmp_path, 'addenda = "mdm"'), read(tmp_path, 'addenda = "mdm"').destination[0]
    )
    chosen = made.mapping_for(ResultEvent.ADDENDUM)
    assert chosen is not None
    codes = chosen.statuses.codes(ResultEvent.ADDENDUM, ())
    assert codes is not None
    assert codes["message"] == "MDM^T06^MDM_T02"


def test_options_that_do_not_fit_the_mapping(tmp_path: Path) -> None:
    """An unknown coding and an option without effect are errors, the first with the destination."""
    with pytest.raises(
        NotRendered, match=r"destination ris: text\.sections: unknown coding 'lonic'"
    ):
        compiled(tmp_path, 'sections = "lonic"')
    own = "include: results.yaml\nsegments:\n  - use: header\n"
    (tmp_path / "mappings" / "bare.yaml").write_text(own, "utf-8")
    with pytest.raises(NotRendered, match="content: has no effect"):
        compiled(tmp_path, 'mapping = "bare"', 'content = ["pdf"]')


def test_a_definition_with_its_own_version(tmp_path: Path) -> None:
    """The version in the settings overrides the version in an older definition."""
    create_data_directory(tmp_path)
    old = (
        "kind: results\nstatuses: {final: {}}\nsegments: [{MSH: {12: ['2.5.1'], 9: [ORU, R01]}}]\n"
    )
    (tmp_path / "mappings" / "results.yaml").write_text(old, "utf-8")
    (results,) = compiled(tmp_path, 'version = "2.3"', 'layout = "formatted"')
    assert results.style.version == "2.3"
