"""
Files of each node: expiry of certificates, and free disk space.

The node that sends alerts sees only its own files. The other nodes store the state of their files
in the database. Entries that their node does not renew are ignored. Blocking.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from sqlalchemy import delete, select

from bridge.monitoring.conditions import NodeFiles, Validity
from bridge.store.database import Database
from bridge.store.tables import NODE_FILES, upsert

_END_OF_LIST = b"-----END X509 CRL-----"


def expiry_times(files: Mapping[str, Path]) -> dict[str, int]:
    """Return when the first certificate of each file expires (ms), by the owner of the file."""
    return {owner: validity.ends for owner, validity in certificate_chains(files).items()}


def certificate_chains(files: Mapping[str, Path]) -> dict[str, Validity]:
    """Return the validity of the certificate that expires first, for each file."""
    return _validities(files, lambda data: min(_certificates(data), key=_end))


def authorities(files: Mapping[str, Path]) -> dict[str, Validity]:
    """Return the validity of the authority that expires last, for each file."""
    return _validities(files, lambda data: max(_certificates(data), key=_end))


def revocation_lists(files: Mapping[str, Path]) -> dict[str, Validity]:
    """
    Return the validity of the revocation list that expires first, for each file.

    After its expiry OpenSSL refuses all certificates of its authority (RFC 5280 §5.1.2.5).
    """
    return _validities(files, lambda data: min(_lists(data), key=_end))


def _validities(
    files: Mapping[str, Path], choose: Callable[[bytes], Validity]
) -> dict[str, Validity]:
    found = {}
    for owner, file in files.items():
        with suppress(OSError, ValueError):  # `bridge check` and the start report it
            found[owner] = choose(file.read_bytes())
    return found


def _end(validity: Validity) -> int:
    return validity.ends


def _certificates(data: bytes) -> list[Validity]:
    return [
        Validity(_ms(certificate.not_valid_before_utc), _ms(certificate.not_valid_after_utc))
        for certificate in x509.load_pem_x509_certificates(data)
    ]


def _lists(data: bytes) -> list[Validity]:
    parts = data.split(_END_OF_LIST)[:-1]
    lists = [x509.load_pem_x509_crl(part.lstrip() + _END_OF_LIST) for part in parts]
    return [
        Validity(_ms(crl.last_update_utc), _ms(crl.next_update_utc))
        for crl in lists
        if crl.next_update_utc is not None
    ]


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def disk_free(home: Path) -> int | None:
    """Return the free bytes on the disk of the data directory; None if unknown."""
    try:
        return shutil.disk_usage(home).free
    except OSError:
        return None


_KEPT_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """The name of a node's slot, and its host name for operators."""

    node: str
    host: str


def save_node_files(
    database: Database,
    address: NodeAddress,
    certificates: Mapping[str, Validity],
    free: int | None,
    now: int,
) -> None:
    """Store the files of a node (`now` in ms, `free` in bytes)."""
    validities = {name: [validity.begins, validity.ends] for name, validity in certificates.items()}
    files = json.dumps({"certificates": validities, "disk_free": free})
    row = {"node": address.node, "host": address.host, "files": files, "at": now}
    with database.write() as connection:
        connection.execute(upsert(NODE_FILES), row)
        connection.execute(delete(NODE_FILES).where(NODE_FILES.c.at < now - _KEPT_MS))


def files_of_other_nodes(database: Database, node: str, after: int) -> list[NodeFiles]:
    """Return the files that other nodes stored after a time (ms)."""
    others = select(NODE_FILES).where(NODE_FILES.c.node != node, NODE_FILES.c.at > after)
    with database.read() as connection:
        rows = connection.execute(others).all()
    return [_read(row.host, json.loads(row.files)) for row in rows]


def _read(host: str, files: Mapping[str, Mapping[str, tuple[int, int]]]) -> NodeFiles:
    validities = {name: Validity(*validity) for name, validity in files["certificates"].items()}
    free = files["disk_free"]
    return NodeFiles(host, validities, free if isinstance(free, int) else None)
