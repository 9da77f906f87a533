"""Connections use no folder and file that their author may not name."""

import os
from pathlib import Path
from typing import Any

import pytest

from bridge.active_settings import make_connection_record, with_saved_connections
from bridge.admin.installation.data_directory import create_data_directory
from bridge.transports.connection_paths import (
    OutsideHome,
    OutsideHomeAsRoot,
    ProtectedPath,
    RefusedPath,
    authorization_path,
    folder_at,
    require_permitted,
)
from bridge.transports.folders import Folder
from config import Settings, load
from config.listeners import ListenerSettings
from config.sections import ChannelKind, DestinationSettings

IS_ROOT = os.geteuid() == 0


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    create_data_directory(tmp_path / "home")
    (tmp_path / "home" / "away").symlink_to(tmp_path / "home" / "secrets")
    (tmp_path / "outside").mkdir()
    (tmp_path / "home" / "out").symlink_to(tmp_path / "outside")
    return load(tmp_path / "home")


def in_file(settings: Settings, text: str) -> Settings:
    """Write connections into bridge.toml, and read it again."""
    with (settings.home / "bridge.toml").open("a") as file:
        file.write(f"\n{text}\n")
    return load(settings.home)


def listener(path: object, **others: Any) -> ListenerSettings:
    return ListenerSettings.model_validate(
        {"name": "files", "bind": f"folder:{path}", "site": "S", **others}
    )


def destination(path: object = "", **others: Any) -> DestinationSettings:
    return DestinationSettings.model_validate(
        {"name": "street", "address": f"folder:{path}", **others}
    )


@pytest.mark.parametrize(
    "path",
    [
        *("secrets", "secrets/x", ".", "mappings", "inbox/../mappings/hooks", "run", "away"),
        *("./secrets/", "x/../secrets", "bridge.db", "bridge.db-large", "bridge-engine.db-wal"),
    ],
)
def test_own_folders_are_refused(settings: Settings, path: str) -> None:
    """The folders of the installation, their children and their parents are refused."""
    for section in (listener(path), destination(path)):
        with pytest.raises(ProtectedPath, match=f"{section.name}: (bind|address): "):
            folder_at(settings, section)


@pytest.mark.parametrize("path", ["inbox", "results/street", "./x", "files 1"])
def test_folders_inside_home_are_allowed(settings: Settings, path: str) -> None:
    """Anybody who may configure connections can name other folders inside HOME."""
    for section in (listener(path), destination(path)):
        require_permitted(settings, section)
        folder_at(settings, section).prepare("done")
        assert (settings.home / path / "done").is_dir()


@pytest.mark.parametrize(
    "path",
    [
        *("/", "..", "/etc", "/root/.ssh", "../outside", "inbox/../../outside", "out", "out/deep"),
        *("/proc/self", "//etc", "~", "~root/.ssh", "x/~root", "..\\outside", "C:\\Windows"),
        *("c:/Windows", "\\\\server\\share", "%2e%2e/outside", "..%2foutside", "..%5Coutside"),
        *("inbox/../../home/../outside", "/etc/../etc/cron.d"),
    ],
)
def test_the_console_names_no_folder_outside_of_home(settings: Settings, path: str) -> None:
    """Not by an absolute path, `..`, a symbolic link, another account's home, or an encoding."""
    for section in (listener(path), destination(path)):
        with pytest.raises(RefusedPath) as refused:
            require_permitted(settings, section)
        assert refused.value.field == ("bind" if section.name == "files" else "address")
        with pytest.raises(RefusedPath):
            folder_at(settings, section)


@pytest.mark.parametrize("path", ["{home}/inbox", "{home}/../home/inbox"])
def test_an_absolute_path_inside_home_is_allowed(settings: Settings, path: str) -> None:
    require_permitted(settings, listener(path.format(home=settings.home)))


def test_bridge_toml_names_folders_outside_of_home(settings: Settings, tmp_path: Path) -> None:
    """Unless the service runs as root: then they are refused, and the text says what to do."""
    own = in_file(
        settings, f'[[listener]]\nname = "files"\nbind = "folder:{tmp_path}/outside"\nsite = "S"'
    )
    if IS_ROOT:
        with pytest.raises(OutsideHomeAsRoot, match=r"listener files: bind: .*outside.* root"):
            require_permitted(own, own.listener[-1])
    else:
        require_permitted(own, own.listener[-1])
        changed = own.listener[-1].model_copy(update={"answer_files": True})
        require_permitted(own, changed)  # the console kept the operator's path


def test_the_name_of_another_connection_grants_nothing(settings: Settings, tmp_path: Path) -> None:
    """Only the connection for which bridge.toml names a path may use it, and only as that."""
    outside = tmp_path / "outside"
    own = in_file(
        settings,
        f"""
[[listener]]
name = "files"
bind = "folder:{outside}"
site = "S"
[[destination]]
name = "web"
address = "https://h.test/"
authorization_file = "{outside}/web.auth"
""",
    )
    for section in (
        listener(outside, name="more"),
        destination(outside),
        destination(outside, name="files"),
        destination(address="https://h.test/", authorization_file=f"{outside}/web.auth"),
        destination(name="web", address="h.test:1", tls={"ca": f"{outside}/web.auth"}),
    ):
        with pytest.raises(OutsideHome):
            require_permitted(own, section)


def test_settings_with_saved_connections_know_what_bridge_toml_names(
    settings: Settings, tmp_path: Path
) -> None:
    table = {"name": "files", "bind": f"folder:{tmp_path}/outside", "site": "S"}
    record = make_connection_record(ChannelKind.LISTENER, "files", table)
    active = with_saved_connections(settings, {record.name: record})
    assert active.of_file is settings
    with pytest.raises(OutsideHome):
        require_permitted(active, active.listener[-1])


@pytest.mark.parametrize(
    "named",
    [
        {"tls": {"certificate": "{}", "key": "k.pem"}},
        {"tls": {"certificate": "c.pem", "key": "{}"}},
        {"tls": {"certificate": "c.pem", "key": "k.pem", "client_ca": "{}"}},
        {"tls": {"certificate": "c.pem", "key": "k.pem", "client_ca": "a", "client_crl": "{}"}},
        {"validate": "warn", "profile": "{}"},
    ],
    ids=str,
)
@pytest.mark.parametrize("path", ["/etc/shadow", "../outside/x", "out/x"])
def test_each_file_of_a_listener_is_inside_home(
    settings: Settings, named: dict[str, Any], path: str
) -> None:
    """Certificates, keys, lists and profiles that the console names are files of HOME."""
    others = {
        key: {name: file.format(path) for name, file in value.items()}
        if isinstance(value, dict)
        else value.format(path)
        for key, value in named.items()
    }
    section = ListenerSettings.model_validate({"name": "l", "bind": "h:1", "site": "S", **others})
    with pytest.raises(OutsideHome):
        require_permitted(settings, section)


@pytest.mark.parametrize("name", ["ca", "certificate", "key", "crl"])
def test_each_tls_file_of_a_destination_is_inside_home(settings: Settings, name: str) -> None:
    tls = {"ca": "ca.pem", name: "/etc/ssl/private/host.key"}
    with pytest.raises(OutsideHome, match=f"tls.{name}"):
        require_permitted(settings, destination(address="h:1", tls=tls))


def test_key_files_of_connections_are_no_messages(settings: Settings) -> None:
    """A folder with the TLS key of a connection cannot be a listener's."""
    own = in_file(
        settings,
        '[[destination]]\nname = "d"\naddress = "h:1"\n'
        'tls = { certificate = "tls/c.pem", key = "tls/k.pem" }',
    )
    with pytest.raises(ProtectedPath):
        require_permitted(own, listener("tls"))
    section = destination(address="https://h.test/", authorization_file="tls/k.pem")
    with pytest.raises(ProtectedPath):
        require_permitted(own, section)


def test_a_link_that_appears_after_the_check_is_not_followed(settings: Settings) -> None:
    """Every component of the path is opened without following links."""
    (settings.home / "share").mkdir()
    folder = folder_at(settings, listener("share/a/b"))
    folder.prepare("done")
    (settings.home / "share/a/b/done").rmdir()
    (settings.home / "share/a/b").rmdir()
    (settings.home / "share/a").rmdir()
    (settings.home / "share/a").symlink_to(settings.home.parent / "outside")
    (settings.home.parent / "outside/b").mkdir()
    for act in (folder.prepare, folder.waiting_files, lambda: folder.put("x.hl7", b"x")):
        with pytest.raises(OSError, match=r"symbolic|Not a directory"):
            act()
    assert list((settings.home.parent / "outside/b").iterdir()) == []
    assert isinstance(folder, Folder)


def test_files_that_the_settings_name_are_protected(tmp_path: Path) -> None:
    """Every file that belongs to no connection, wherever it lies, with the folders around it."""
    home, other = tmp_path / "home", tmp_path / "other/deep"
    create_data_directory(home)
    other.mkdir(parents=True)
    (home / "bridge.toml").write_text(
        f"""
[engine]
tokens = {{ SITE1 = "{other}/site1.token" }}
[alerts]
mail = {{ host = "h", from = "a@b.de", to = ["c@d.de"], password_file = "mail/password" }}
webhook = {{ url = "https://h.test/", authorization_file = "{other}/webhook.auth" }}
[[destination]]
name = "street"
address = "https://h.test/"
authorization_file = "{other}/street.auth"
[[destination]]
name = "wrong"
address = "https://h.test/"
authorization_file = "{other}/site1.token"
[[destination]]
name = "folder"
address = "folder:{other}"
""",
        "utf-8",
    )
    settings = load(home)
    street, wrong, folder = settings.destination
    assert authorization_path(settings, street) == other / "street.auth"
    with pytest.raises(ProtectedPath):
        authorization_path(settings, wrong)
    with pytest.raises(ProtectedPath):
        folder_at(settings, folder)
    with pytest.raises(ProtectedPath):
        folder_at(settings, listener("mail"))


def test_own_secrets_are_not_sent_to_peers(settings: Settings) -> None:
    """The service token, the key ring and bridge.toml cannot be an Authorization header."""
    for own in ("secrets/engine.token", "away/link.keys", "secrets/index.key", "bridge.toml"):
        section = destination(address="https://h.test/", authorization_file=own)
        with pytest.raises(ProtectedPath):
            authorization_path(settings, section)
    section = destination(address="https://h.test/", authorization_file="secrets/street.auth")
    assert authorization_path(settings, section)
    assert authorization_path(settings, destination("x")) is None


@pytest.mark.parametrize(
    "host",
    [
        *("169.254.169.254", "2852039166", "0xa9fea9fe", "169.254.1.1", "[fe80::1]", "224.0.0.1"),
        *("0.0.0.0", "[::]", "[::ffff:169.254.169.254]", "0251.0376.0251.0376"),
    ],
)
def test_services_of_the_machine_are_no_receivers(settings: Settings, host: str) -> None:
    """The console cannot name link-local addresses, such as the metadata of a cloud."""
    for address in (f"{host}:80", f"http://{host}/latest"):
        with pytest.raises(RefusedPath) as refused:
            require_permitted(settings, destination(address=address))
        assert refused.value.field == "address"


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:2576", "10.1.2.3:2575", "https://ris.hospital.test/hl7", "[fd00::1]:2575"],
)
def test_receivers_on_private_networks_are_normal(settings: Settings, address: str) -> None:
    """Private and loopback addresses are allowed."""
    require_permitted(settings, destination(address=address))
