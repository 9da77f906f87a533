"""One service with many listeners and destinations, each set differently."""

import ssl
from pathlib import Path

import trustme

from tests.acceptance.house import House
from tests.acceptance.wire import Sink


class Hospital:
    def __init__(self, home: Path, ris: Sink, authority: trustme.CA) -> None:
        """Choose ports and write certificates; start nothing."""
        self.house = House(home)
        self.authority = authority
        self.folder = home.parent
        certificate = self._files("bridge", authority.issue_cert("localhost"))
        authority.cert_pem.write_to_path(str(self.folder / "ca.pem"))
        self.ca = str(self.folder / "ca.pem")
        self.secure_sink = Sink(tls=self._server_context(authority))
        self._destinations(ris, certificate)
        add = self.house.listener
        self.applied = add("applied", acknowledge="applied")
        self.nowhere = add("nowhere", acknowledge="applied", site="NOSITE")
        self.stored = add("stored", acknowledge="stored")
        self.replying = add("replying", replies="order")
        self.validating = add("validating", validate="refuse")
        self.warning = add("warning", validate="warn")
        self.strict = add("strict", reused_control_id="refuse")
        self.small = add("small", max_connections=2, frame_timeout="1s", max_frame="32KiB")
        self.idle = add("idle", idle_timeout="1s")
        self.latin = add("latin", charset="iso-8859-1")
        self.tls = add("tls", tls=certificate)

    def close(self) -> None:
        self.secure_sink.stop()

    def _destinations(self, ris: Sink, certificate: dict[str, str]) -> None:
        self.house.destination("ris", ris.port)
        tls = certificate | {"ca": self.ca, "server_name": "localhost"}
        self.house.destination("secure", self.secure_sink.port, tls=tls)
        self.house.destination("elsewhere", self.secure_sink.port, sites=["OTHER"], tls=tls)

    def _server_context(self, authority: trustme.CA) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context

    def _files(self, name: str, certificate: trustme.LeafCert) -> dict[str, str]:
        chain, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        for blob in certificate.cert_chain_pems:
            blob.write_to_path(str(chain), append=True)
        certificate.private_key_pem.write_to_path(str(key))
        key.chmod(0o600)
        return {"certificate": str(chain), "key": str(key)}
