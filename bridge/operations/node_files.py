"""
What each node sees of its own: until when its TLS files are valid, how full its disk is.

Whoever watches for all sees only its own disk; the others write down theirs. A row counts as long
as its node renews it: of a node that is gone nothing is news but that. Blocking.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import text

from bridge.operations.conditions import Files, Life
from bridge.store.database import Database

_KEPT = 86_400_000  # ms

_NOTE = text("""
    INSERT INTO node_files (node, host, files, at) VALUES (:node, :host, :files, :at)
    ON CONFLICT (node) DO UPDATE SET host = :host, files = :files, at = :at
""")
_FORGET = text("DELETE FROM node_files WHERE at < :before")
_STANDING = text("SELECT host, files FROM node_files WHERE node <> :node AND at > :after")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node is: the name of its slot, and that of its host for people."""

    node: str
    host: str


def note(
    database: Database, place: Place, certificates: Mapping[str, Life], free: int | None, now: int
) -> None:
    """Write down what a node sees now (`now` in ms, `free` in bytes)."""
    lives = {name: [life.begins, life.ends] for name, life in certificates.items()}
    files = json.dumps({"certificates": lives, "disk_free": free})
    row = {"node": place.node, "host": place.host, "files": files, "at": now}
    with database.write() as connection:
        connection.execute(_NOTE, row)
        connection.execute(_FORGET, {"before": now - _KEPT})


def of_others(database: Database, node: str, after: int) -> list[Files]:
    """Give what all nodes but this one wrote down after a time, ms."""
    with database.read() as connection:
        rows = connection.execute(_STANDING, {"node": node, "after": after}).all()
    return [_read(row.host, json.loads(row.files)) for row in rows]


def _read(host: str, files: Mapping[str, Mapping[str, tuple[int, int]]]) -> Files:
    lives = {name: Life(*life) for name, life in files["certificates"].items()}
    free = files["disk_free"]
    return Files(host, lives, free if isinstance(free, int) else None)
