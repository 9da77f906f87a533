"""A database with one message per second."""

from dataclasses import dataclass

from sqlalchemy import text

from bridge.store.database import Database

START = 1_700_000_000_000
_ROW = text("""
    INSERT INTO message (received_at, listener, identity, digest, edition, message_type, mapping,
        mapping_version, flags, ack_code, acknowledgment, error_code, error_place, state, detail)
    VALUES (:at, :listener, :n, :n, 0, 'ORM^O01', 'orders', '1', 0, 'AA', 'delivered', '', '',
        :state, :detail)
""")
_BODY = text("INSERT INTO message_body (message_id, payload, ack) VALUES (:n, :payload, :payload)")


def payload(number: int) -> bytes:
    return (
        f"MSH|^~\\&|RIS|HOSP|B|R|20260102||ORM^O01|C{number}|P|2.5.1\r"
        f"PID|1||M{number % 3}\rORC|NW|P{number}|F{number}\r"
    ).encode()


@dataclass
class MessageStore:
    """A database with messages; message n arrived n seconds after START."""

    database: Database

    def fill(self, first: int, last: int, state: str = "done", detail: str = "") -> None:
        rows = [
            {
                "n": n,
                "at": START + n * 1000,
                "listener": "odd" if n % 2 else "even",
                "state": state,
                "detail": detail,
                "payload": payload(n),
            }
            for n in range(first, last + 1)
        ]
        with self.database.write() as connection:
            connection.execute(_ROW, rows)
            connection.execute(_BODY, rows)
