"""Causes: every code that the product stores has words and, where a person can help, an action."""

import ast
from collections.abc import Iterator
from inspect import getmembers, isclass
from pathlib import Path
from types import ModuleType

import pytest

import bridge
from bridge.admin.causes import (
    DELIVERY_CAUSES,
    ENGINE_CAUSES,
    MESSAGE_CAUSES,
    Cause,
    ProposedAction,
    cause_of,
)
from bridge.contract.errors import ErrorCode
from bridge.delivery import errors as composition
from bridge.delivery.reconciler import STILL_ORDERED, DifferenceKind
from bridge.delivery.reply_policy import ReplyKind
from bridge.engine_client import client
from bridge.intake.process import job_context, order_processor
from bridge.queue.deliveries import INTERRUPTED, NOT_CONNECTED
from bridge.store.records.exceptions import MERGE_UNDONE, ExceptionSubject
from mappings.hl7.refusals import ErrorCode as TableCode
from mllp.errors import LossReason

MESSAGE, DELIVERY = ExceptionSubject.MESSAGE, ExceptionSubject.DELIVERY
_ROOT = Path(bridge.__file__).parent
_CODE_PLACES = {"MessageOutcome": 3, "_outcome": 2, "give_up": 1, "EngineFailure": 2, "get": 1}
"""Where a call has its code, as a positional argument."""


def is_explained(cause: Cause, code: str) -> bool:
    """True if the words are a statement and not the code itself."""
    return " " in cause.words and code not in {cause.words, cause.words.partition(" ")[0]}


def codes_in(folder: str, module: ModuleType) -> set[str]:
    """Return the codes that the sources of a package store, constants included."""
    found: set[str] = set()
    for file in sorted((_ROOT / folder).rglob("*.py")):
        tree = ast.parse(file.read_text())
        constants = {
            target.id: node.value.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign | ast.AnnAssign)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            for value in _values(node):
                match value:
                    case ast.Constant(value=str(text)) if text:
                        found.add(text)
                    case ast.Name(id=name) if isinstance(getattr(module, name, None), str):
                        found.add(getattr(module, name))
                    case ast.Name(id=name) if name in constants:
                        found.add(constants[name])
    return found


def _values(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions of codes: keyword `code`, known calls, and the table `_CODES`."""
    if isinstance(node, ast.Call):
        yield from (word.value for word in node.keywords if word.arg == "code")
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name == "get" and not ast.unparse(node.func).startswith("_CODES."):
            return
        place = _CODE_PLACES.get(name)
        if place is not None and len(node.args) > place:
            yield node.args[place]
    if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "_CODES":
        assert isinstance(node.value, ast.Dict)
        yield from node.value.values


def test_codes_of_messages_have_words() -> None:
    """Codes that processing stores, those that need attention, and those of acknowledgments."""
    codes = codes_in("intake/process", order_processor) | set(job_context.EXCEPTION_NOTES)
    assert {"not_readable", "content_missing", "patient_conflict", "merged"} <= codes
    missing = {code for code in codes if not is_explained(cause_of(MESSAGE, "parked", code), code)}
    assert missing == set()
    for code in TableCode:
        if code is not TableCode.ACCEPTED:
            cause = cause_of(MESSAGE, "refused", code.value, "", "PID-3.1")
            assert cause.words.startswith(f"{code.value} ")
            assert cause.words.endswith("at PID-3.1")
            assert cause.action


def test_codes_of_deliveries_have_words() -> None:
    """Codes that a courier stores, kinds of replies, and results that cannot be composed."""
    errors = {
        vars(member)["code"]
        for _, member in getmembers(composition, isclass)
        if "code" in vars(member)
    }
    codes = codes_in("delivery", composition) | errors | {INTERRUPTED, NOT_CONNECTED, "tls"}
    codes |= {kind.value for kind in ReplyKind} - {"AA", "CA"}
    assert {"unframeable", "not_composed", "no_definition", "silence", "AE"} <= codes
    missing = {code for code in codes if not is_explained(cause_of(DELIVERY, "parked", code), code)}
    assert missing == set()
    for reason in LossReason:
        assert reason.value != cause_of(DELIVERY, "parked", "silence", reason.value).words


def test_codes_of_the_report_engine_have_words() -> None:
    """Each error of the interface, and ours about a call that got no usable answer."""
    codes = {code.value for code in ErrorCode} | codes_in("engine_client", client)
    assert {"unreachable", "no_answer", "unreadable", "bad_address", "no_texts"} <= codes
    for subject in (MESSAGE, DELIVERY):
        missing = {
            code for code in codes if not is_explained(cause_of(subject, "parked", code), code)
        }
        assert missing == set()
    assert "503" in cause_of(MESSAGE, "parked", "http_503").words


def test_items_about_orders_and_the_feed_have_words() -> None:
    """Differences to the report engine, with the destination; and a replaced feed."""
    for code in (*DifferenceKind, STILL_ORDERED, MERGE_UNDONE):
        assert cause_of(ExceptionSubject.ORDER, "", code).action
    queued = cause_of(ExceptionSubject.ORDER, "", f"{DifferenceKind.NOT_QUEUED} ris")
    assert queued.words.endswith(": ris")
    for code in (ErrorCode.CURSOR_BEYOND_END, ErrorCode.CURSOR_OF_ANOTHER_FEED):
        assert "restored" in cause_of(ExceptionSubject.FEED, "", code.value).words


def test_actions_are_known_and_advised() -> None:
    """An action comes with advice; words have no full stop, so that they can be continued."""
    for table in (MESSAGE_CAUSES, DELIVERY_CAUSES, ENGINE_CAUSES):
        for cause in table.values():
            assert not cause.words.endswith(".")
            assert not cause.action or cause.action in set(ProposedAction)
            assert bool(cause.advice) >= bool(cause.action)


@pytest.mark.parametrize(
    ("state", "action"),
    [("parked", "replay"), ("queued", ""), ("claimed", ""), ("cancelled", ""), ("ignored", "")],
)
def test_an_action_fits_the_state(state: str, action: str) -> None:
    """Work that is tried again by itself, or was ended by a person, has no action."""
    assert cause_of(MESSAGE, state, "no_answer").action == action


def test_a_delivery_is_retried_where_a_message_is_replayed() -> None:
    assert cause_of(MESSAGE, "parked", "unauthorized").action == "replay"
    assert cause_of(DELIVERY, "parked", "unauthorized").action == "retry"


def test_a_refused_result_names_code_and_meaning() -> None:
    cause = cause_of(DELIVERY, "parked", "AE", "103")
    assert cause.words == "The receiver refuses the result: AE 103 Table value not found"
    assert cause.action == "add codes"
    assert cause_of(DELIVERY, "parked", "AR", "207").action == "retry"
    assert cause_of(DELIVERY, "", "AE 207").words.endswith("AE 207 Application internal error")
    assert cause_of(DELIVERY, "done", "AA").words == ""
    words = cause_of(DELIVERY, "queued", "silence", "closed").words
    assert words == "The receiver does not reply: it closed the connection"


def test_a_message_of_another_release_keeps_its_code() -> None:
    """A code that nobody knows is shown with its detail."""
    assert cause_of(MESSAGE, "parked", "new_code", "of a later release").words == (
        "new_code of a later release"
    )
    assert cause_of(MESSAGE, "done", "").words == ""
