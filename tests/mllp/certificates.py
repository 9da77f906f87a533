"""Certificates for one test run."""

from pathlib import Path

import trustme


class Certificates:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority, self.untrusted_authority = trustme.CA(), trustme.CA()
        server = self.authority.issue_cert("127.0.0.1", "ris.example")
        self.ca = self.write("ca", self.authority.cert_pem.bytes())
        self.untrusted_ca = self.write("untrusted-ca", self.untrusted_authority.cert_pem.bytes())
        self.certificate = self.write(
            "certificate", b"".join(one.bytes() for one in server.cert_chain_pems)
        )
        self.key = self.write("key", server.private_key_pem.bytes())
        client = self.authority.issue_cert("client.example")
        self.client_certificate = self.write("client", client.cert_chain_pems[0].bytes())
        self.client_key = self.write("client-key", client.private_key_pem.bytes())

    def write(self, name: str, data: bytes) -> str:
        path = self.folder / name
        path.write_bytes(data)
        return str(path)

    @property
    def server(self) -> dict[str, str]:
        return {"certificate": self.certificate, "key": self.key}

    @property
    def client(self) -> dict[str, str]:
        return {"certificate": self.client_certificate, "key": self.client_key}
