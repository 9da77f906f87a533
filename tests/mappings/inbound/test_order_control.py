"""The order control table is data: the code follows it, and the page shows it."""

import re
from itertools import product
from pathlib import Path

import pytest

from mappings.compiler import DEFINITIONS, load
from mappings.inbound.definition import InboundMapping
from mappings.inbound.events import OrderAction
from mappings.inbound.order_mapping import (
    DEFAULT_REPLIES,
    OrderControlTable,
    OrderDecision,
    OrderRules,
)

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "order-control.md").read_text("utf-8")
_TABLE_0119 = """
    AF CA CH CN CP CR DC DE DF DR FU HD HR LI MC NA NR NW OC OD OE OF OH OK OP OR PA PR PY
    RE RF RL RO RP RQ RR RU SC SN SR SS UA UC UD UF UH UM UN UR UX XO XR XX
"""
TABLE_0119 = frozenset(_TABLE_0119.split())
"""Order control codes of v2.5.1."""
STATUSES = ["A", "CA", "CM", "DC", "ER", "HD", "IP", "RP", "SC"]
"""Order statuses of table 0038."""
RESULTS = ["A", "C", "F", "I", "O", "P", "R", "S", "X", "Y", "Z"]
"""Result statuses of table 0123."""
SHIPPED = load(DEFINITIONS, "orders")
assert isinstance(SHIPPED, InboundMapping)
assert isinstance(SHIPPED.plan, OrderRules)
TABLE: OrderControlTable = SHIPPED.plan.control
CODES = sorted({control for control, _, _ in TABLE.rows})
ORDERING = {"NW", "SN", "RO", "CH"}
CHANGING = {"NA", "XO", "XR", "XX", "SC"}
CLOSING = {
    OrderAction.CANCEL: {"CA", "CR", "OC"},
    OrderAction.DISCONTINUE: {"DC", "DR", "OD"},
    OrderAction.REPLACE: {"RP", "RU", "RQ"},
    OrderAction.HOLD: {"HD", "HR", "OH"},
    OrderAction.RELEASE: {"RL", "OR", "OE"},
}
PAIRED = {
    "A": "examined",
    "CM": "examined",
    "CA": OrderAction.CANCEL,
    "DC": OrderAction.DISCONTINUE,
    "HD": OrderAction.HOLD,
}


def decided(control: str, status: str, result: str = "") -> OrderDecision:
    found = TABLE.decide(control, status, result)
    assert found is not None
    return found


def shown(decision: OrderDecision) -> str:
    """Format a decision as the page does."""
    return f"{decision.action} examined" if decision.examined else decision.action.value


def test_every_code_of_the_table_has_its_line() -> None:
    """The table has each code of table 0119 of v2.5.1."""
    assert set(CODES) >= TABLE_0119


@pytest.mark.parametrize("control", CODES)
@pytest.mark.parametrize("status", ["", *STATUSES, "Final", "VAQ"])
def test_every_pair(control: str, status: str) -> None:
    """ORC-1 determines the action; ORC-5 matters only for orders and changes."""
    decision = decided(control, status)
    closing = {code: action for action, codes in CLOSING.items() for code in codes}
    if control in closing:
        assert decision == OrderDecision(closing[control])
    elif control in ORDERING | CHANGING:
        base = OrderAction.CREATE if control in ORDERING else OrderAction.CHANGE
        action = PAIRED.get(status, OrderAction.REPLACE if (control, status) in REPLACED else base)
        expected = (
            OrderDecision(base, examined=True)
            if action == "examined"
            else OrderDecision(OrderAction(action))
        )
        assert decision == expected
    else:
        assert decision == OrderDecision(OrderAction.IGNORE)


def test_small_letters() -> None:
    """An order with `ca` is cancelled like one with `CA`."""
    assert decided("NW", "ca") == decided("NW", "CA") != decided("NW", "")
    assert decided("XO", "Cm") == decided("XO", "CM")


@pytest.mark.parametrize("control", CODES)
@pytest.mark.parametrize("status", ["", *STATUSES])
def test_a_result_status_matters_only_to_a_completed_change(control: str, status: str) -> None:
    """SC and XO with CM and a final or corrected result say that the order was reported."""
    reports = control in {"SC", "XO"} and status == "CM"
    for result in RESULTS:
        expected = decided(control, status)
        if reports and result in {"C", "F"}:
            expected = OrderDecision(OrderAction.REPORTED)
        assert decided(control, status, result) == expected
    assert decided(control, status.lower(), "f") == decided(control, status, "F")


REPLACED = {(control, "RP") for control in CHANGING}
"""A replaced order. With a new order: it replaces another."""


@pytest.mark.parametrize("control", ["", "QQ", "nw "])
def test_an_unknown_code(control: str) -> None:
    assert TABLE.decide(control, "SC") is None


@pytest.mark.parametrize("control", CODES)
def test_the_page_shows_the_line(control: str) -> None:
    """`docs/reference/order-control.md` has a line for each code, with the statuses that matter."""
    alone = decided(control, "")
    statuses = [item for item in STATUSES if decided(control, item) != alone]
    differing: dict[str, list[str]] = {}
    for status in statuses:
        differing.setdefault(shown(decided(control, status)), []).append(status)
    for status, result in product(STATUSES, RESULTS):
        if (decision := decided(control, status, result)) != decided(control, status):
            differing.setdefault(shown(decision), []).append(f"{status}/{result}")
    pairs = "; ".join(f"{', '.join(codes)}: {action}" for action, codes in differing.items())
    done, unable = TABLE.replies.get(control, DEFAULT_REPLIES)
    leads = rf"{shown(alone)} \| {re.escape(pairs)} ?"
    line = rf"^\| {control} \| [^|]+ \| {leads}\| {done}, {unable} \|$"
    assert re.search(line, PAGE, re.MULTILINE), f"{control} | {shown(alone)} | {pairs}"


def test_the_page_shows_nothing_else() -> None:
    """Each line of the page has its code in the file."""
    assert sorted(re.findall(r"^\| ([A-Z]{2}) \|", PAGE, re.MULTILINE)) == CODES
