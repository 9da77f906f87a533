"""
The queue's tables by name, for statements that are put together as they are needed.

The migrations define them; what must be fast stands in `statements`.
"""

from dataclasses import fields

from sqlalchemy import TableClause, column, table

from bridge.queue.rows import DeliveryRow, MessageRow


def _table(name: str, row: type[MessageRow | DeliveryRow], *more: str) -> TableClause:
    return table(name, *(column(each.name) for each in fields(row)), *map(column, more))


MESSAGE = _table("message", MessageRow, "lane_1", "lane_2", "blocked", "notes")
MESSAGE_BODY = table("message_body", column("message_id"), column("payload"), column("ack"))
DELIVERY = _table("delivery", DeliveryRow, "lane", "blocked", "orders", "reply")
DELIVERY_BODY = table("delivery_body", column("delivery_id"), column("payload"))
