"""`bridge interface export|import` copies an interface between data directories, all or nothing."""

from pathlib import Path

import pytest
from typer.testing import Result

from bridge.wiring.active_settings import current
from bridge.wiring.stores import bridge_database
from config import load
from tests.bridge.cli.home import Home
from tests.databases import create_migrated_home

SETTINGS = """
[[listener]]
name = "ris.u"
bind = "127.0.0.1:0"
mappings = ["ris-u", "patients"]
site = "SITE1"
[[destination]]
name = "back"
address = "127.0.0.1:9"
mapping = "own"
events = ["final", "preliminary"]
fields = { "Lab \\"1\\"" = "x = y", b = "2" }
"""


def run(home: Path, *arguments: str) -> Result:
    """Run `bridge interface …`."""
    return Home(home).run("interface", *arguments)


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """An exported interface, as a folder."""
    home, folder = tmp_path / "first", tmp_path / "folder"
    create_migrated_home(home)
    (home / "bridge.toml").write_text(SETTINGS, "utf-8")
    mappings = home / "mappings"
    (mappings / "ris-u.yaml").write_text(
        "include: orders.yaml\ntags: {Modality: {from: OBR-24, codes: ours}}\n"
    )
    (mappings / "codes" / "ours.csv").write_text("code,value\nX,CT\n")
    (mappings / "own.yaml").write_text("include: results.yaml\norders: combined\n")
    result = run(home, "export", str(folder), "ris.u", "back")
    assert result.exit_code == 0, (result.output, result.exception)
    return folder


def test_export_and_import(exported: Path, tmp_path: Path) -> None:
    """Import restores settings, definitions, their includes and code tables."""
    home = tmp_path / "second"
    create_migrated_home(home)
    (home / "bridge.toml").write_text("", "utf-8")
    result = run(home, "import", str(exported))
    assert result.exit_code == 0, (result.output, result.exception)
    settings = load(home)
    assert settings.listener[0].mappings == ["ris-u", "patients"]
    assert settings.destination[0].fields == {'Lab "1"': "x = y", "b": "2"}
    assert (home / "mappings" / "codes" / "ours.csv").read_text() == "code,value\nX,CT\n"
    assert (home / "mappings" / "status.yaml").exists()


def test_import_and_activate(exported: Path, tmp_path: Path) -> None:
    """`--activate` activates the interface on all nodes, and changes no file."""
    home = tmp_path / "second"
    create_migrated_home(home)
    (home / "bridge.toml").write_text("", "utf-8")
    result = run(home, "import", str(exported), "--activate", "-m", "from the first hospital")
    assert result.exit_code == 0, (result.output, result.exception)
    with bridge_database(home) as database:
        settings = current(load(home), database)
    assert settings.listener[0].mappings == ["ris-u", "patients"]
    assert settings.destination[0].fields == {'Lab "1"': "x = y", "b": "2"}
    assert (home / "bridge.toml").read_text() == ""
    assert run(home, "import", str(exported), "--activate").exit_code != 0, (
        "the file exists already"
    )


def test_existing_files_are_not_replaced(exported: Path, tmp_path: Path) -> None:
    """A file that differs stops the import before it writes."""
    home = tmp_path / "second"
    create_migrated_home(home)
    (home / "bridge.toml").write_text("", "utf-8")
    file = home / "mappings" / "own.yaml"
    file.write_text("include: results.yaml\n")
    result = run(home, "import", str(exported))
    assert "own.yaml" in str(result.exception)
    assert load(home).listener == []
    assert not (home / "mappings" / "ris-u.yaml").exists()
    assert run(home, "import", str(exported), "--replace").exit_code == 0
    assert "combined" in file.read_text()


def test_mistakes_stop_an_import(exported: Path, tmp_path: Path) -> None:
    """A definition with a mistake or a name in use stops the import."""
    home = tmp_path / "second"
    create_migrated_home(home)
    (home / "bridge.toml").write_text("", "utf-8")
    own = exported / "mappings" / "ris-u.yaml"
    good = own.read_text()
    own.write_text("include: orders.yaml\ntags: {Modality: ORB-24}\n")
    assert run(home, "import", str(exported)).exit_code != 0
    assert (home / "bridge.toml").read_text() == ""
    own.write_text(good)
    assert run(home, "import", str(exported)).exit_code == 0
    before = (home / "bridge.toml").read_text()
    assert run(home, "import", str(exported)).exit_code != 0
    assert (home / "bridge.toml").read_text() == before


def test_names_that_do_not_exist(tmp_path: Path) -> None:
    """An export of an unknown interface fails, and writes nothing."""
    create_migrated_home(tmp_path / "home")
    assert run(tmp_path / "home", "export", str(tmp_path / "x"), "unknown").exit_code != 0
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "link", ["interface.toml", "mappings", "mappings/codes", "mappings/codes/ours.csv"]
)
@pytest.mark.parametrize("activate", [[], ["--activate"]])
def test_a_package_with_a_symbolic_link_is_refused(
    exported: Path, tmp_path: Path, link: str, activate: list[str]
) -> None:
    """A link would copy a file of the machine into definitions, which each author can read."""
    home = tmp_path / "second"
    create_migrated_home(home)
    (home / "bridge.toml").write_text("", "utf-8")
    (exported / link).rename(tmp_path / "elsewhere")
    (exported / link).symlink_to(tmp_path / "elsewhere")
    result = run(home, "import", str(exported), *activate)
    assert f"{link} is a symbolic link" in str(result.exception)
    assert load(home).listener == []
