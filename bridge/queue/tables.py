"""
The queue's tables by name, for statements that are put together as they are needed.

The migrations define them; what must be fast stands in `statements`.
"""

from dataclasses import fields
from typing import Any

from sqlalchemy import BigInteger, ColumnClause, TableClause, column, table

from bridge.queue.rows import DeliveryRow, MessageRow


def _table(
    name: str, row: type[MessageRow | DeliveryRow], numbers: list[str], more: list[str]
) -> TableClause:
    told = [
        _number(each.name) if "int" in str(each.type) else column(each.name) for each in fields(row)
    ]
    return table(name, *told, *map(_number, numbers), *map(column, more))


def _number(name: str) -> ColumnClause[Any]:
    """Name a column of 64 bits: untyped, a time in ms would be taken for 32."""
    return column(name, BigInteger())


MESSAGE = _table("message", MessageRow, ["lane_1", "lane_2", "blocked"], ["notes"])
MESSAGE_BODY = table("message_body", _number("message_id"), column("payload"), column("ack"))
DELIVERY = _table("delivery", DeliveryRow, ["lane", "blocked"], ["orders", "reply"])
DELIVERY_BODY = table("delivery_body", _number("delivery_id"), column("payload"))
MESSAGE_NUMBER = table("message_number", _number("number"), _number("message_id"))
MESSAGE_EDIT = table("message_edit", _number("message_id"), _number("origin_id"))
