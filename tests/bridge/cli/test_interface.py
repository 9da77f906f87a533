"""`bridge interface export|import` copies an interface between data directories, all or nothing."""

import re
from pathlib import Path

import pytest
import trustme
from typer.testing import Result

from bridge.active_settings import current
from bridge.store.databases import bridge_database
from config import load
from tests.bridge.cli.home import Home
from tests.databases import create_migrated_home

pytestmark = pytest.mark.filterwarnings("ignore:Passing pyOpenSSL")

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


PRODUCTION = """# the settings of production
[http]
bind = "127.0.0.1:8999"

[[listener]]  # the orders of the RIS
name = "ris.u"
bind = "127.0.0.1:2601"
site = "SITE1"
mappings = ["orders"]
[listener.tls]
certificate = "tls/c.pem"
key = "tls/k.pem"

# the results
[[destination]]
name = "back"
address = "10.1.1.1:2576"

[[destination]]
name = "other"
address = "127.0.0.1:10"

[log]
level = "info"
"""


@pytest.fixture
def production(tmp_path: Path) -> Path:
    home = tmp_path / "production"
    create_migrated_home(home)
    (home / "bridge.toml").write_text(PRODUCTION, "utf-8")
    (home / "tls").mkdir()
    issued = trustme.CA().issue_cert("ris.test")
    issued.cert_chain_pems[0].write_to_path(str(home / "tls/c.pem"))
    issued.private_key_pem.write_to_path(str(home / "tls/k.pem"))
    return home


KEEP = ("--keep", "bind", "--keep", "address", "--keep", "tls")


def test_a_promotion_replaces_again_and_again(exported: Path, production: Path) -> None:
    """It keeps addresses and TLS files of production, and the rest of bridge.toml."""
    interface = exported / "interface.toml"
    for step, site in enumerate(("SITE1", "SITE2", "SITE2", "SITE3")):
        interface.write_text(re.sub(r"SITE.", site, interface.read_text()))
        result = run(production, "import", str(exported), "--replace", *KEEP)
        assert result.exit_code == 0, (result.output, result.exception)
        listener, (back, other) = load(production).listener[0], load(production).destination
        assert (str(listener.bind), listener.site) == ("127.0.0.1:2601", site)
        assert listener.tls is not None
        assert listener.mappings == ["ris-u", "patients"]
        assert (str(back.address), back.mapping) == ("10.1.1.1:2576", "own")
        assert str(other.address) == "127.0.0.1:10"
        text = (production / "bridge.toml").read_text()
        assert text.startswith("# the settings of production\n[http]\n")
        assert "# the results\n" in text
        assert load(production).http.bind.port == 8999
        if step == 1:
            assert "  site: SITE1 -> SITE2" in result.output
        if step == 2:
            assert "nothing changes" in result.output
            assert "listener ris.u: unchanged" in result.output


@pytest.mark.parametrize("mode", [(), ("--activate",)])
def test_the_difference_comes_first(
    exported: Path, production: Path, mode: tuple[str, ...]
) -> None:
    """`--dry-run` prints each setting and line that changes, and changes nothing."""
    own = production / "mappings/own.yaml"
    own.write_text("include: results.yaml\norders: grouped\n")
    before = {path: path.read_bytes() for path in production.rglob("*.toml")}
    result = run(production, "import", str(exported), "--replace", "--dry-run", *KEEP, *mode)
    assert result.exit_code == 0, (result.output, result.exception)
    lines = result.output.splitlines()
    assert "listener ris.u: changed" in lines
    assert "  mappings: ['orders'] -> ['ris-u', 'patients']" in lines
    assert "destination back: changed" in lines
    assert not any("10.1.1.1" in line for line in lines), "kept settings do not change"
    assert "file own.yaml: changed" in lines
    assert {"  -orders: grouped", "  +orders: combined"} <= set(lines)
    assert "file ris-u.yaml: new" in lines
    assert lines[-1] == "nothing was changed"
    assert {path: path.read_bytes() for path in before} == before
    assert "grouped" in own.read_text()
    with bridge_database(production) as database:
        assert current(load(production), database) == load(production)


@pytest.mark.parametrize("mode", [(), ("--activate",)])
def test_nothing_is_replaced_unless_it_is_asked_for(
    exported: Path, production: Path, mode: tuple[str, ...]
) -> None:
    """The refusal names what exists, and nothing changes."""
    result = run(production, "import", str(exported), *mode)
    assert result.exit_code != 0
    assert "listener ris.u, destination back exists; --replace" in str(result.exception)
    assert (production / "bridge.toml").read_text() == PRODUCTION
    assert not (production / "mappings/ris-u.yaml").exists()


@pytest.mark.parametrize("mode", [(), ("--activate",)])
def test_a_part_of_the_connections(exported: Path, production: Path, mode: tuple[str, ...]) -> None:
    """A package with one connection leaves the others alone."""
    interface = exported / "interface.toml"
    interface.write_text("[[destination]]" + interface.read_text().partition("[[destination]]")[2])
    result = run(production, "import", str(exported), "--replace", *mode)
    assert result.exit_code == 0, (result.output, result.exception)
    with bridge_database(production) as database:
        settings = current(load(production), database)
    assert settings.listener == load(production).listener
    assert [str(destination.address) for destination in settings.destination] == [
        "127.0.0.1:9",
        "127.0.0.1:10",
    ]


@pytest.mark.parametrize("mode", [(), ("--activate",)])
def test_a_renamed_listener(exported: Path, production: Path, mode: tuple[str, ...]) -> None:
    """The listener whose address it takes is disabled, so its stored messages are processed."""
    interface = exported / "interface.toml"
    text = interface.read_text().replace("ris.u", "ris-new").replace("127.0.0.1:0", "0.0.0.0:2601")
    interface.write_text(text)
    result = run(production, "import", str(exported), "--replace", *mode)
    assert result.exit_code == 0, (result.output, result.exception)
    assert {"listener ris-new: new", "listener ris.u: disabled"} <= set(result.output.splitlines())
    with bridge_database(production) as database:
        found = {
            listener.name: listener.enabled
            for listener in current(load(production), database).listener
        }
    assert found == {"ris.u": False, "ris-new": True}


def test_a_connection_of_the_console_needs_an_activation(exported: Path, production: Path) -> None:
    """Its settings would override those that an import writes into bridge.toml."""
    first = run(production, "import", str(exported), "--replace", "--activate", *KEEP)
    assert first.exit_code == 0, (first.output, first.exception)
    result = run(production, "import", str(exported), "--replace")
    assert "is saved in the console, which overrides bridge.toml" in str(result.exception)
    again = run(production, "import", str(exported), "--replace", "--activate", *KEEP)
    assert again.exit_code == 0, (again.output, again.exception)
    assert "nothing changes" in again.output


def test_mistakes_in_a_replacement_change_nothing(exported: Path, production: Path) -> None:
    """An unknown setting to keep, a missing file, a path outside, a definition with a mistake."""
    interface = exported / "interface.toml"
    good = interface.read_text()
    for text, more, why in (
        (good, ("--keep", "colour"), "connections have no setting colour"),
        (good + 'tls = { ca = "none.pem" }\n', (), "create these files in HOME first"),
        (good + 'tls = { ca = "/etc/ssl/cert.pem" }\n', (), "is not inside HOME"),
        (good.replace('"127.0.0.1:9"', '"folder:../x"'), (), "is not inside HOME"),
        (good.replace('"own"', '"orders"'), (), "outgoing"),
    ):
        interface.write_text(text)
        for mode in ((), ("--activate",)):
            result = run(production, "import", str(exported), "--replace", *more, *mode)
            assert why in str(result.exception), (why, result.output, result.exception)
            assert (production / "bridge.toml").read_text() == PRODUCTION
