"""A DICOM peer that keeps no rule: it sends any bytes on an association that was accepted."""

import socket
from pathlib import Path
from typing import Any, Final

from pydicom.dataset import Dataset
from pydicom.uid import UID, ExplicitVRLittleEndian
from pynetdicom import AE, evt
from pynetdicom.dsutils import encode
from pynetdicom.events import Event

from tests.eventually import PATIENCE

CALLED: Final = "REPORT_BRIDGE"
COMMAND, DATA, LAST = 1, 0, 2
P_DATA: Final = 4
ABORT: Final = 7
ACCEPTED: Final = 2


def request_of(
    port: int, *classes: str, title: str = "CT1", syntax: UID = ExplicitVRLittleEndian
) -> bytes:
    """Return the A-ASSOCIATE-RQ that pynetdicom sends; the contexts have the numbers 1, 3, …"""
    sent: list[bytes] = []

    def note(event: Event) -> None:
        sent.append(bytes(event.data))

    entity = AE(title)
    for sop_class in classes:
        entity.add_requested_context(sop_class, syntax)
    association = entity.associate(
        "127.0.0.1", port, ae_title=CALLED, evt_handlers=[(evt.EVT_DATA_SENT, note)]
    )
    if association.is_established:
        association.release()
    return sent[0]


def raw_request(*contexts: tuple[int, str, str], calling: bytes = b"CT1") -> bytes:
    """Return an A-ASSOCIATE-RQ with any IDs, abstract and transfer syntaxes ('': none)."""
    items = _item(0x10, b"1.2.840.10008.3.1.1.1")
    for number, abstract, transfer in contexts:
        syntaxes = _item(0x30, abstract.encode())
        syntaxes += _item(0x40, transfer.encode()) if transfer else b""
        items += _item(0x20, bytes((number, 0, 0, 0)) + syntaxes)
    items += _item(0x50, _item(0x51, (16384).to_bytes(4, "big")) + _item(0x52, b"1.2.3"))
    body = b"\0\1\0\0" + CALLED.encode().ljust(16) + calling.ljust(16) + bytes(32) + items
    return b"\x01\0" + len(body).to_bytes(4, "big") + body


def _item(kind: int, content: bytes) -> bytes:
    return bytes((kind, 0)) + len(content).to_bytes(2, "big") + content


class HostilePeer:
    """A connection with an association, unless `request` is empty."""

    def __init__(self, port: int, request: bytes = b"") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        if request:
            self.send(request)
            kind, _ = self.read()
            assert kind == ACCEPTED

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self) -> tuple[int, bytes]:
        """Return type and content of the next PDU; 0 if the connection has ended."""
        head = self._exactly(6)
        if len(head) < 6:
            return 0, b""
        return head[0], self._exactly(int.from_bytes(head[2:], "big"))

    def _exactly(self, size: int) -> bytes:
        found = b""
        try:
            while len(found) < size and (part := self.socket.recv(size - len(found))):
                found += part
        except ConnectionError:
            return b""
        return found

    def close(self) -> None:
        self.socket.close()


def p_data(context: int, control: int, data: bytes) -> bytes:
    """Return a P-DATA-TF PDU with one value."""
    value = (len(data) + 2).to_bytes(4, "big") + bytes((context, control)) + data
    return b"\x04\x00" + len(value).to_bytes(4, "big") + value


def store_command(sop_class: str, uid: str = "1.2.3") -> bytes:
    """Return the command of a C-STORE-RQ."""
    return command(
        AffectedSOPClassUID=sop_class,
        CommandField=0x0001,
        MessageID=1,
        Priority=0,
        CommandDataSetType=1,
        AffectedSOPInstanceUID=uid,
    )


def command(**elements: Any) -> bytes:
    """Return a command set."""
    found = Dataset()
    for keyword, value in elements.items():
        setattr(found, keyword, value)
    members = encode(found, True, True)
    assert members is not None
    return b"\0\0\0\0\4\0\0\0" + len(members).to_bytes(4, "little") + members


def peak_memory(process: int) -> int:
    """Return the most bytes that a process had in memory since `forget_peak`."""
    (line,) = (
        line
        for line in Path(f"/proc/{process}/status").read_text("ascii").splitlines()
        if line.startswith("VmHWM:")
    )
    return int(line.split()[1]) * 1024


def forget_peak(process: int) -> int:
    """Begin a new measurement; return the bytes that a process has in memory now."""
    Path(f"/proc/{process}/clear_refs").write_text("5", "ascii")
    return peak_memory(process)
