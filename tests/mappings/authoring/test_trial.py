"""Trials of a definition on a message."""

import json

from mappings.authoring.trial import try_message
from mappings.compiler import DEFINITIONS, load
from mappings.inbound.definition import InboundMapping
from tests.mappings.definitions import DEFAULTS, MSH, PID, overlaid

SHIPPED = load(DEFINITIONS, "orders")
assert isinstance(SHIPPED, InboundMapping)
SEGMENTS = [MSH, PID, "ORC|NW|P1", "OBR|1|P1||X^Test", "OBR|2|P2||Y", "ZAB|1|z"]
RAW = "\r".join(SEGMENTS).encode()


def test_used_and_unused() -> None:
    """A trial lists the fields that rules read, and those that no rule reads."""
    assert isinstance(SHIPPED, InboundMapping)
    trial = try_message(SHIPPED, RAW, DEFAULTS)
    assert {"PID-3", "PID-5", "OBR-4", "OBR[2]-4"} <= set(trial.used)
    assert {"MSH-10", "PID-1", "OBR[2]-1"} <= set(trial.unused)
    assert not set(trial.used) & set(trial.unused)


def test_a_new_rule_uses_its_field() -> None:
    trial = try_message(overlaid("tags: {KeyFindings: PID-1}"), RAW, DEFAULTS)
    assert "PID-1" in trial.used


def test_events_are_json() -> None:
    assert isinstance(SHIPPED, InboundMapping)
    trial = try_message(SHIPPED, RAW, DEFAULTS)
    assert trial.accepted
    shown = json.loads(json.dumps(trial.events))
    assert [event["place"] for event in shown] == ["ORC[1]", "OBR[2]"]
    assert shown[0]["link_signals"] == ["message-group=P1"]


def test_the_message_stays_as_it_was() -> None:
    """A trial has no side effect: the message maps to the same events afterwards."""
    assert isinstance(SHIPPED, InboundMapping)
    first = try_message(SHIPPED, RAW, DEFAULTS)
    assert try_message(SHIPPED, RAW, DEFAULTS) == first


def test_bad_messages() -> None:
    """Malformed, foreign and refused messages are reported, not raised."""
    assert isinstance(SHIPPED, InboundMapping)
    for raw, path in (
        (b"hello", "MSH"),
        (RAW.replace(b"ORM^O01", b"DFT^P03"), "MSH-9"),
        (RAW.replace(b"|NW|", b"|QQ|"), "ORC-1"),
    ):
        trial = try_message(SHIPPED, raw, DEFAULTS)
        assert not trial.accepted
        assert trial.events == ()
        assert path in [issue.path for issue in trial.issues]


def test_failing_hook_is_named() -> None:
    """The issue names the hook that failed, without the text of its exception."""
    broken = {"h.py": "def f(message):\n    raise ValueError('Doe')\n"}
    trial = try_message(overlaid("tags: {Notes: {hook: 'h:f'}}", broken), RAW, DEFAULTS)
    assert "hook h:f raised ValueError" in [issue.message for issue in trial.issues]


def test_failing_hooks_park_or_refuse() -> None:
    """A failing hook parks the message. If an identifier needs the hook, the message is refused."""
    hooks = {"mine.py": "def fail(message):\n    raise ValueError\n"}
    parked = try_message(overlaid("tags: {Notes: {hook: mine:fail}}", hooks), RAW, DEFAULTS)
    number = "tags: {PatientMRN: {hook: mine:fail, required: true}}"
    refused = try_message(overlaid(number, hooks), RAW, DEFAULTS)

    assert (parked.accepted, parked.parked) == (False, True)
    assert parked.issues[-1].message == "the message is acknowledged, and parked"
    assert (refused.accepted, refused.parked) == (False, False)


def test_a_code_without_an_entry_is_a_warning() -> None:
    """A trial names the code, the table and what happens to it; the message is accepted."""
    assert isinstance(SHIPPED, InboundMapping)
    trial = try_message(SHIPPED, RAW.replace(b"|19800102|F", b"|19800102|Q"), DEFAULTS)
    (warning,) = [issue for issue in trial.issues if issue.code == "unmapped_code"]
    assert trial.accepted
    assert (warning.path, warning.severity) == ("PID-8.1", "warning")
    assert warning.message.startswith("the code Q is not in the code table ")
