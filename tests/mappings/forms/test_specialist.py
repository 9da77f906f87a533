"""When code is written, for what, and how much of it there can be."""

from dataclasses import MISSING, FrozenInstanceError, fields

import pytest

from mappings.events import OrderEvent
from mappings.forms.form import sent
from mappings.forms.specialist import Code
from mappings.inbound import InboundMapping
from tests.acceptance.orders import order
from tests.benchmarks.mapping import with_more_rules
from tests.mappings.forms.sameness import by_form, by_rules, is_written, orders, readily
from tests.mappings.language import DEFAULTS, overlaid


def code_of(mapping: InboundMapping, raw: bytes) -> Code:
    """The code for the form of a message."""
    form = sent(raw, "utf-8")
    assert form is not None
    assert mapping.specialist is not None
    code = mapping.specialist._written[form.form].code
    assert code is not None
    return code


def learned(mapping: InboundMapping, raw: bytes) -> InboundMapping:
    """A definition that has seen a message often enough."""
    for _ in range(3):
        assert by_form(mapping, raw) == by_rules(mapping, raw)
    return mapping


def test_the_third_of_a_form_has_code_written() -> None:
    """What comes once or twice costs nothing beside its mapping; other values are no other form."""
    mapping = orders()
    for number in range(1, 5):
        assert is_written(mapping, order(9)) == (number > 3)
        by_form(mapping, order(number))


def test_rules_that_have_nothing_to_do_cost_nothing() -> None:
    """Ten times as many rules that find nothing add no more than a look at how long a line is."""
    few, many = learned(orders(), order(1)), learned(with_more_rules(), order(1))
    sizes = [len(code_of(each, order(1)).__code__.co_code) for each in (few, many)]
    assert sizes[1] <= 1.01 * sizes[0]


def test_a_form_learns_what_is_new() -> None:
    """A field nobody filled before goes to the rules, until there is code for it too."""
    mapping = learned(orders(), order(1))
    for number in range(2, 9):
        grouped = order(number, group=f"G{number}")
        assert by_form(mapping, grouped) == by_rules(mapping, grouped)
    assert is_written(mapping, order(9, group="G9"))
    assert is_written(mapping, order(9))


def test_refusals_are_the_rules_own() -> None:
    """An unknown order control, and an order without a patient, are refused with their places."""
    mapping = learned(orders(), order(1))
    for raw in (order(2, control="QQ"), order(3).replace(b"M3^^^HOSP^MR", b"")):
        assert by_form(mapping, raw) == by_rules(mapping, raw)
        assert not is_written(mapping, raw)


def test_memory_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forms beyond the most that are kept make others be forgotten; all are mapped the same."""
    monkeypatch.setattr("mappings.forms.specialist.MOST_WRITTEN", 3)
    monkeypatch.setattr("mappings.forms.specialist.MOST_MET", 4)
    mapping = orders()
    for notes in range(12):
        raw = order(1, extra="NTE|1||x\r" * notes)
        for _ in range(8):
            assert by_form(mapping, raw) == by_rules(mapping, raw)
    assert mapping.specialist is not None
    assert len(mapping.specialist._written) <= 3
    assert len(mapping.specialist._met) <= 4


def test_patterns_have_code_too() -> None:
    """None of them takes long."""
    mapping = overlaid("tags: {KeyFindings: {from: NTE-3, when: {NTE-3: {matches: '(a+)+$'}}}}")
    for number in range(5):
        raw = order(number, extra="NTE|1||baaa\r")
        assert by_form(mapping, raw) == by_rules(mapping, raw)


def test_hooks_are_asked_as_ever() -> None:
    """A hook sees the message that the rules would show it, beside what has code."""
    hook = "def f(message):\n    return str(message.segment('OBR')[3]) + '!'\n"
    mapping = overlaid("tags: {KeyFindings: {hook: 'h:f'}}", {"h.py": hook})
    learned(mapping, order(1))
    assert is_written(mapping, order(2))
    (event,) = mapping.read(order(2), "utf-8", DEFAULTS)
    assert event.clinical_info["KeyFindings"] == "F2!"
    assert readily(mapping, order(2)) is None


def test_what_has_code_is_read_readily() -> None:
    """And gives what it always gives; what the rules have to be asked about does not."""
    mapping = orders()
    assert readily(mapping, order(1)) is None
    learned(mapping, order(1))
    assert readily(mapping, order(2)) == by_rules(mapping, order(2))
    for raw in (order(2, control="QQ"), order(3).replace(b"M3^^^HOSP^MR", b"")):
        assert readily(mapping, raw) is None


@pytest.mark.parametrize("text", ["'\\n raise SystemExit #", '"""', "\\", "k0", "{T}"])
def test_no_text_becomes_source(text: str) -> None:
    """What an administrator writes is a constant, whatever it looks like."""
    quoted = text.replace("'", "''")
    mapping = overlaid(
        f"tags: {{KeyFindings: {{join: [OBR-4.2, {{const: '{quoted}'}}], separator: '{quoted}'}}}}"
    )
    learned(mapping, order(1))
    (event,) = mapping.read(order(2), "utf-8", DEFAULTS)
    assert event.clinical_info["KeyFindings"] == f"CT CHEST{text}{text}"
    assert is_written(mapping, order(3))


def test_a_join_of_components_keeps_its_places() -> None:
    """As the rules do: where parts are empty, constant, or null."""
    mapping = overlaid(
        "tags: {Notes: {join: [OBR-4.1, OBR-13, {const: ''}, {const: x}, OBR-4.2, OBR-14], "
        "separator: '^'}}"
    )
    empty = order(1)
    null = order(2).replace(b"|||20260102030000||||||", b'|||20260102030000||||||""')
    assert null != order(2)
    for raw in (empty, null):
        learned(mapping, raw)
        assert by_form(mapping, raw) == by_rules(mapping, raw)
        assert is_written(mapping, raw)
        (event,) = mapping.read(raw, "utf-8", DEFAULTS)
        assert event.clinical_info["Notes"] == "71250^^^x^CT CHEST"


def test_events_are_what_they_seem() -> None:
    """An event that code made is frozen, and every value that it does not set is plain."""
    mapping = learned(orders(), order(1))
    (event,) = mapping.read(order(2), "utf-8", DEFAULTS)
    assert type(event) is OrderEvent
    with pytest.raises(FrozenInstanceError):
        event.mrn = "other"  # type: ignore[misc]  # that is the point
    assert all(each.default_factory is MISSING for each in fields(OrderEvent))
