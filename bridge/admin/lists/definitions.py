"""The lists that pages, commands and background jobs read, by name."""

from collections.abc import Mapping
from typing import Any, Final

from bridge.admin.lists.deliveries import DeliveryList
from bridge.admin.lists.listing import ListDefinition
from bridge.admin.lists.messages import MessageList
from bridge.admin.lists.orders import OrderList

MESSAGES: Final = MessageList()
DELIVERIES: Final = DeliveryList()
ORDERS: Final = OrderList()
LISTS: Final[Mapping[str, ListDefinition[Any]]] = {
    listed.name: listed for listed in (MESSAGES, DELIVERIES, ORDERS)
}
"""Lists whose rows have ids; attention items and audit events have their own modules."""
