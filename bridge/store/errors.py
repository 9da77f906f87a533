"""
What the database can refuse.

* StoreError
    * StoreUnavailable    disk full, I/O error, server gone: try again when it has recovered
        * Busy            somebody else holds what we need: try again soon
        * Lost            a connection ended that was kept for long: try again at once
    * Conflict            a unique key is taken
    * StatementRefused    the statement is wrong: a defect of ours
    * SchemaTooNew        the database was migrated by a newer release
    * NotSynchronous      commits do not wait for a standby, and have to
    * WrongIndexKey       its hashes have another key than secrets/index.key
    * SchemaInUse         others use the tables that are to be migrated
    * UnsupportedStore    no database we can keep messages in
    * NameTaken           another process goes by our name
"""

# ruff: noqa: N818  # named for what happened, as the field does

from bridge.errors import BridgeError

_FULL = "its disk is full"
_WORDS = {
    "53100": _FULL,
    "SQLITE_FULL": _FULL,
    "SQLITE_IOERR_SHMSIZE": _FULL,
    "SQLITE_CANTOPEN": "its file cannot be opened, or its folder cannot be written",
    "SQLITE_READONLY": "its file cannot be written",
    "SQLITE_NOTADB": "its file is no database",
    "SQLITE_CORRUPT": "its file is damaged",
    "ENOSPC": _FULL,
    "EDQUOT": "its disk is full, or its user's share of it",
    "EACCES": "the folder of its large messages may not be written",
    "EROFS": "its disk may not be written",
    "53300": "no connection is left",
    "lost": "no connection",
    "55P03": "others hold a lock",
    "42501": "our role lacks the right",
}
"""What codes mean that are seen at night."""


class StoreError(BridgeError):
    """The database did not do what was asked; nothing of the transaction was kept."""


class StoreUnavailable(StoreError):
    """The database cannot keep anything at the moment."""

    def __init__(self, code: str, why: str = "") -> None:
        self.code = code
        meaning = f": {_WORDS[code]}" if code in _WORDS else ""
        told = f"the database is unavailable ({code}{meaning})"
        super().__init__(f"{told}: {why}" if why else told)


class Busy(StoreUnavailable):
    """A lock or a connection was not to be had in time."""


class Lost(StoreUnavailable):
    """A connection ended that had served before: whether with the commit or without is unknown."""


class Conflict(StoreError):
    """A unique key is taken; `constraint` names it as the database does."""

    def __init__(self, constraint: str) -> None:
        self.constraint = constraint
        super().__init__(f"already there ({constraint})")


class StatementRefused(StoreError):
    """The database refused a statement for what it is; `code` and `insert_deliveries` bear no
    values.
    """

    def __init__(self, code: str, place: str = "") -> None:
        self.code = code
        self.place = place
        meaning = f": {_WORDS[code]}" if code in _WORDS else ""
        super().__init__(f"statement refused ({' '.join(filter(None, (code, place)))}{meaning})")


class SchemaTooNew(StoreError):
    """The database knows revisions that this release does not."""

    def __init__(self, package: str, revisions: tuple[str, ...]) -> None:
        self.package = package
        self.revisions = revisions
        known = ", ".join(revisions)
        super().__init__(f"{package}: the database is at {known}, newer than this release")


class SchemaInUse(StoreError):
    """Others use tables that are to be migrated; nothing was changed."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"{package}: not migrated, nothing was changed: others use the tables;"
            " stop all nodes, wait for back-ups, and start again"
        )


class NotSynchronous(StoreUnavailable):
    """Commits do not wait for a synchronous standby, which the settings require."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"database.require_synchronous is set, and on the server {problem}")


class WrongIndexKey(StoreError):
    """The hashes of the database have another key than this installation."""

    def __init__(self) -> None:
        super().__init__(
            "secrets/index.key is not the key of this database: copy the file from another node "
            "that uses the database, or from the back-up of it"
        )


class UnsupportedStore(StoreError):
    """The address names no database that can keep messages safely."""

    def __init__(self, dialect: str, reason: str) -> None:
        super().__init__(f"cannot keep messages in {dialect}: {reason}")


class NameTaken(StoreError):
    """Another process goes by our name: HOME was copied with its folder `execute_sql`."""

    def __init__(self) -> None:
        super().__init__("another process has this node's name: a copied HOME has no folder 'run'")
