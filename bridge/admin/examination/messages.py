"""
The messages of an examination: results of an invented patient with processing id T.

The control ids begin with EXAM and differ between examinations.
"""

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from mappings.hl7.batch import messages_in
from mappings.hl7.header import peek
from mappings.hl7.message import Message
from mappings.hl7.refusals import MessageRefusal

RESULT: Final = "ORU^R01^ORU_R01"
PATIENT: Final = "EXAM-PATIENT"
TEXT: Final = "This is a test of the connection. There is no examination and no patient."
_CHARSETS: Final = {"utf-8": "UNICODE UTF-8", "iso-8859-1": "8859/1", "ascii": ""}


class UnusableMessage(ValueError):
    """A file of the user has no message that can be sent as a test."""


@dataclass(slots=True)
class ExaminationMessages:
    """Makes test messages, each with its own control id; `template` replaces the shipped one."""

    template: bytes | None = None
    _run: str = field(default_factory=lambda: secrets.token_hex(4).upper())
    _count: int = 0

    @property
    def count(self) -> int:
        return self._count

    def new_id(self) -> str:
        """Return a control id of at most 20 characters."""
        self._count += 1
        return f"EXAM{self._run}-{self._count}"

    def message(
        self,
        *,
        kind: str = RESULT,
        version: str = "",
        conditions: tuple[str, str] = ("", ""),
        text: str = TEXT,
        charset: str = "ascii",
        patient: str = PATIENT,
    ) -> tuple[str, bytes]:
        """Return a control id and its message; without a version, 2.5.1 or that of the template."""
        control_id = self.new_id()
        if self.template is not None and kind == RESULT and patient == PATIENT:
            return control_id, self._of_template(control_id, version, conditions)
        now = f"{datetime.now(UTC):%Y%m%d%H%M%S}"
        accept, application = conditions
        head = f"MSH|^~\\&|REPORT-BRIDGE|EXAM|||{now}||{kind}|{control_id}|T|{version or '2.5.1'}"
        numbers = f"{control_id}|{control_id}"
        segments = (
            f"{head}|||{accept}|{application}||{_CHARSETS[charset]}",
            f"PID|1||{patient}^^^EXAM^MR||Test^Connection||19000101|O",
            f"ORC|RE|{numbers}",
            f"OBR|1|{numbers}|TEST^Test of the connection|||{now}{'|' * 15}{now}|||F",
            f"OBX|1|TX|18748-4^Diagnostic imaging report^LN||{text}||||||F",
        )
        return control_id, "\r".join((*segments, "")).encode(charset)

    def _of_template(self, control_id: str, version: str, conditions: tuple[str, str]) -> bytes:
        message = Message.parse(self.template or b"", fallback="utf-8")
        header = message.raw.split(b"\r", 1)[0]
        mark = header[3:4]
        fields = header.split(mark)
        fields += [b""] * ((16 if any(conditions) else 11) - len(fields))
        fields[9], fields[10] = control_id.encode(), b"T"
        if version:
            fields[11] = version.encode()
        if any(conditions):
            fields[14], fields[15] = conditions[0].encode(), conditions[1].encode()
        return mark.join(fields) + message.raw[len(header) :]


def template_of(document: bytes) -> bytes:
    """Return the message of a file. Raises UnusableMessage."""
    found = messages_in(document)
    if len(found) != 1:
        raise UnusableMessage("the file has no HL7 message, or several")
    try:
        peek(found[0])
    except MessageRefusal:
        raise UnusableMessage("the file has no MSH segment that can be read") from None
    return found[0]
