"""Plans of messages with many orders."""

from bridge.intake.process.order_plans import OrderTask, plan
from bridge.intake.process.order_rules import SourceMessage
from mappings.inbound.events import OrderEvent
from tests.calls import counted
from tests.mappings.definitions import DEFAULTS, inbound_mapping, message

ORDERS = inbound_mapping("orders")


def procedures(count: int, control: str = "NW") -> list[OrderEvent]:
    """Return the events of a message with many procedures of one accession."""
    groups = [
        segment
        for number in range(count)
        for segment in (
            f"ORC|{control}|P{number}",
            f"OBR|1|P{number}||X^Test {number}" + "|" * 14 + "A1",
        )
    ]
    return ORDERS.apply(message(*groups), DEFAULTS)


def ordered_and_changed(count: int) -> tuple[OrderTask, int]:
    """Plan an order with many procedures and a change of it; return the last task and the calls."""
    new, changed = procedures(count), procedures(count, "XO")

    def work() -> OrderTask:
        (task,) = plan(new, {}, SourceMessage(1, None))
        (task,) = plan(changed, {task.after.key: task.after}, SourceMessage(2, None))
        return task

    return counted(work)


def test_the_procedures_of_an_accession_cost_their_number() -> None:
    """Twice the procedures are twice the work: a frame may have 1,000, planned on the loop."""
    _, few = ordered_and_changed(100)
    task, many = ordered_and_changed(200)
    assert [line[:9] for line in task.after.echo if line.startswith("ORC")] == [
        f"ORC|XO|P{number}"[:9] for number in range(200)
    ]
    assert many < 3 * few
