"""
HL7 status messages about what modalities have said: begun, completed, discontinued.

They are events `order-status` of the destinations, with the status of the step in place of that of
the report. An order without a report has deliveries under a name of its own.
"""

from bridge.delivery.change_feed import ChangeProcessor
from bridge.delivery.destinations import ReportEvent
from bridge.orders.order import Order
from bridge.queue.outbox import order_name
from bridge.store.records import order_index, step_events
from bridge.store.records.step_events import StepEventRow
from mappings.outbound.results import ResultEvent


class StepStatuses:
    """Queues the status messages of performed steps. Blocking."""

    def __init__(self, processor: ChangeProcessor) -> None:
        """`processor` knows the destinations."""
        self._processor = processor

    def queue(self) -> int:
        """Queue the messages of the oldest events; return how many. Raises StoreError."""
        database = self._processor.database
        with database.read_committed() as connection:
            if not step_events.exist(connection):
                return 0
        with database.write() as connection:
            taken = step_events.take(connection)
            keys = [event.key for event in taken]
            ids = order_index.states(connection, keys)
            orders = order_index.find(connection, keys)
            events = [
                _report_event(event, orders[event.key], ids[event.key][0])
                for event in taken
                if event.key in orders
            ]
            return self._processor.queue(connection, events)


def _report_event(event: StepEventRow, order: Order, order_id: int) -> ReportEvent:
    name = f"{ResultEvent.ORDER_STATUS}:step {event.message_id}"
    report_id = order.report_id or order_name(order_id)
    tags = {**order.tags, **order.key.tags()}
    return ReportEvent(ResultEvent.ORDER_STATUS, report_id, name, event.status, [tags], 0, event.at)
