"""The rows of the queues, newest first."""

from sqlalchemy import select

from bridge.queue.listing_rows import DeliveryRow, MessageRow
from bridge.queue.log_tables import pull_new
from bridge.queue.queries import listed_delivery, listed_message
from bridge.queue.statements import DELIVERY, MESSAGE
from bridge.store.database import Database


def messages(database: Database) -> list[MessageRow]:
    pull_new(database)
    columns = [MESSAGE.c[name] for name in MessageRow.__slots__]
    with database.read() as connection:
        found = connection.execute(select(*columns).order_by(MESSAGE.c.id.desc())).mappings()
        return [listed_message(row) for row in found]


def deliveries(database: Database) -> list[DeliveryRow]:
    columns = [DELIVERY.c[name] for name in DeliveryRow.__slots__]
    with database.read() as connection:
        found = connection.execute(select(*columns).order_by(DELIVERY.c.id.desc())).mappings()
        return [listed_delivery(row) for row in found]
