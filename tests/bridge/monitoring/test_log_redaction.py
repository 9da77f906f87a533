"""No patient data in logs, metrics and exceptions: each failure runs with canary values."""

import ast
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs
from twisted.logger import LogLevel
from twisted.python.failure import Failure

from bridge import logs
from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from bridge.intake.receive.verdict import FrameEvaluator
from bridge.logs import SafeObserver
from bridge.redaction import describe, safe_text, stack_frames
from bridge.store.database import Database
from bridge.store.errors import StatementRefused, StoreUnavailable
from config.listeners import Acknowledge
from tests.bridge.delivery.fixtures import accepting, destination
from tests.bridge.delivery.whole_bridge import open_hospital
from tests.bridge.intake.fixture import LISTENING, open_intake
from tests.eventually import eventually_async

CANARIES = (
    "CANARYMRN",
    "CANARYNAME",
    "CANARYACC",
    "CANARYUID",
    "CANARYTEXT",
    "CANARYID",
    "CANARYZ",
)

ORDER = (
    "MSH|^~\\&|CANARYZ1|MAIN|BRIDGE|RAD|20261121120000||ORM^O01|CANARYID{n}|P|2.3.1\r"
    "PID|1||CANARYMRN{n}||CANARYNAME^TILDA||19700101|F\r"
    "ORC|{control}|CANARYACC{n}|CANARYACC{n}||SC\r"
    "OBR|1|CANARYACC{n}|CANARYACC{n}|CANARYZ2^CANARYTEXT^L|||20261121113000|||||||||||CANARYACC{n}\r"
    "ZDS|CANARYUID^A^Application^DICOM\r"
)


def order(number: int = 1, control: str = "NW") -> bytes:
    """Build an order full of canary values."""
    return ORDER.format(n=number, control=control).encode()


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    before = logging.root.handlers[:], logging.root.level
    logs.configure("DEBUG", stream=stream)
    yield stream
    structlog.reset_defaults()
    logging.root.handlers[:], logging.root.level = before
    logging.getLogger("uvicorn.access").disabled = False


def clean(*texts: object) -> None:
    for text in texts:
        found = [canary for canary in CANARIES if canary in str(text)]
        assert not found, f"{found} in {str(text)[:500]}"


class Broken:
    def __call__(self, *things: object, **more: object) -> object:
        raise ValueError(f"cannot read {things!r} CANARYNAME")

    __getattr__ = __call__


async def test_intake_logs_no_values(database: Database, lines: io.StringIO) -> None:
    """Refusals and failures of mapping and storage log codes and places only."""
    payloads = [
        order(),
        order(2).replace(b"CANARYMRN2", b""),
        order(3).replace(b"ORM^O01", b"ORM^O99"),
        order(4).replace(b"|P|2.3.1", b"|T|2.3.1"),
        order(5, "CANARYZ"),
        b"CANARYNAME is no message",
        order(6) + order(7),
    ]
    for acknowledge in Acknowledge:
        async with open_intake(database, acknowledge=acknowledge) as intake:
            replies = [reply for payload in payloads for reply in await intake.send(payload)]
            clean(*(reply.replace(b"CANARYID", b"").replace(b"CANARYZ1", b"") for reply in replies))
            intake.handler._evaluator._router = Broken()  # type: ignore[assignment]
            await intake.send(order(8))
            intake.handler._inbox = Broken()  # type: ignore[assignment]
            intake.handler._evaluator = FrameEvaluator(LISTENING, intake.handler._report_error)
            await intake.send(order(9))
            clean(intake.metrics.render(), intake.rows("error_code, error_place"))
    assert "not accepted" in lines.getvalue()
    clean(lines.getvalue())


async def test_order_processing_and_delivery_log_no_values(
    tmp_path: Path, database: Database, lines: io.StringIO
) -> None:
    """Refusals and failures of the service and a receiver log codes and places only."""

    def refuse(payload: bytes) -> bytes:
        return accepting(payload).replace(b"MSA|AA|", b"MSA|AE|").rstrip() + b"|CANARYTEXT\r"

    async with open_hospital(
        tmp_path, database, destination(replies={"AE": "park"}), reply_with={"ris": refuse}
    ) as hospital:
        await hospital.send(order(1))
        await hospital.send(order(2).replace(b"CANARYMRN2", b"CANARYMRN1").replace(b"TILDA", b"X"))
        await hospital.read_and_sign("CANARYACC1", "CANARYTEXT", "CANARYMRN1")
        await hospital.follow()
        await eventually_async(lambda: hospital.rows("SELECT state FROM delivery") == [("parked",)])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(hospital.client, "launch", Broken())
            patch.setattr(hospital.client, "launch_batch", Broken())
            await hospital.hand_over(order(3))
            await eventually_async(
                lambda: ("parked",) in hospital.rows("SELECT state FROM message WHERE id = 3")
            )
        clean(
            hospital.metrics.render(),
            hospital.rows("SELECT code, detail, failure, notes FROM message"),
            hospital.rows("SELECT code, detail, failure, release_key FROM delivery"),
        )
    assert "not applied" in lines.getvalue()
    clean(lines.getvalue())


def test_an_error_is_described_by_class_and_place() -> None:
    """The log omits the messages of exceptions and their causes."""
    try:
        try:
            Broken()("CANARYNAME")
        except ValueError as cause:
            raise RuntimeError("CANARYMRN") from cause
    except RuntimeError as error:
        description = describe(error)
        clean(description, stack_frames(error))
        assert description.startswith("RuntimeError at test_log_redaction.py:")
        assert "from ValueError at" in description


def test_the_code_of_a_database_is_logged_and_no_other() -> None:
    """`SQLITE_CORRUPT` tells an administrator what to do; the code of an engine is any text."""
    assert describe(StoreUnavailable("SQLITE_CORRUPT")) == "StoreUnavailable SQLITE_CORRUPT"
    assert describe(StatementRefused("42703", "message")) == "StatementRefused 42703"
    clean(describe(EngineFailure("/", FailureKind.PERMANENT, "CANARYMRN")))


def test_all_fields_of_our_lines_are_allowed() -> None:
    """The log would drop another field, and the line would not say what happened."""
    root = Path(logs.__file__).parent
    calls = [
        (path.name, node)
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    dropped = [
        (name, call.lineno, field.arg)
        for name, call in calls
        if call.func.attr in {"bind", "debug", "info", "warning", "error", "critical"}  # type: ignore[attr-defined]  # checked above
        and ast.unparse(call.func.value).endswith("log")  # type: ignore[attr-defined]
        for field in call.keywords
        if field.arg not in {None, "exc_info", *logs.ALLOWED_FIELDS}
    ]
    assert dropped == []


def test_lines_of_libraries_lose_quotations() -> None:
    """The log removes query strings and quoted parts."""
    text = "GET /api/report/content?PatientMRN=CANARYMRN failed for 'CANARYNAME' \"CANARYACC\""
    clean(safe_text(text))
    assert safe_text("plain line") == "plain line"


def test_errors_logged_by_libraries(lines: io.StringIO) -> None:
    """An exception that a library logs is described by class and place."""
    try:
        Broken()("CANARYNAME")
    except ValueError:
        logging.getLogger("library").exception("broken by %s", "CANARYMRN")
    logging.getLogger("library").warning("see 'CANARYACC' at /x?mrn=CANARYMRN")
    structlog.get_logger().info("ours", mrn="CANARYMRN", count=1)
    text = lines.getvalue()
    clean(text)
    assert "ValueError" in text
    assert '"dropped_fields": 1' in text
    assert '"count": 1' in text
    assert all('"timestamp": "2' in line for line in text.splitlines())


def test_responses_to_closed_connections_are_not_logged(lines: io.StringIO) -> None:
    """Anonymous clients cause as many of asyncio's warnings as they want."""
    for _ in range(5):
        logging.getLogger("asyncio").warning("socket.send() raised exception.")
    logging.getLogger("asyncio").warning("another warning")
    assert [json.loads(line)["event"] for line in lines.getvalue().splitlines()] == [
        "another warning"
    ]


def test_a_failure_of_the_service_has_no_body() -> None:
    """The text of EngineFailure has path, code, status and class."""
    from bridge.errors import FailureKind  # noqa: PLC0415

    failure = EngineFailure("/api/report/status", FailureKind.PERMANENT, "bad_request", 400)
    assert str(failure) == "/api/report/status: bad_request (400), permanent"


FAILURE = Failure(ValueError("DOE"))
PYTHON_WARNING = {  # as twisted.logger shows those of the module `warnings`
    "log_format": "{filename}:{lineno}: {category}: {warning}",
    "warning": UserWarning("bad value 'DOE' of UID"),
    "category": "builtins.UserWarning",
    "filename": "/somewhere/DOE/reader.py",
    "lineno": 41,
}


@pytest.mark.parametrize(
    ("event", "logged"),
    [
        ({"log_failure": FAILURE}, "ValueError"),
        ({"log_format": "cannot accept: {reason}", "reason": "DOE"}, "cannot accept: …"),
        ({"log_format": "{count} of {peer}", "count": 7, "peer": FAILURE}, "7 of Failure"),
        (PYTHON_WARNING, "reader.py:41: builtins.UserWarning: bad value '…' of UID"),
        ({"log_format": "{log_text}", "message": ("DOE",)}, "without an exception"),
        ({}, "without an exception"),
    ],
)
def test_no_warning_is_empty_and_none_has_values(event: dict[str, Any], logged: str) -> None:
    """A line has class and place of an exception, or a text with its numbers and classes."""
    with capture_logs() as lines:
        SafeObserver()({"log_level": LogLevel.warn, "log_namespace": "twisted.test", **event})
    (line,) = lines
    assert logged in line["error"]
    assert line["reason"] == "twisted.test"
    assert "DOE" not in str(line)
