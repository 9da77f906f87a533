"""Which message a delivery goes back to, for traces: asked of our own database."""

from sqlalchemy import text

from bridge.executors import Threads
from bridge.operations.tracing import Origin
from bridge.queue.deliveries import ClaimedDelivery
from bridge.store import order_index
from bridge.store.database import Database
from bridge.store.order_index import Key

_DIGEST = text("SELECT digest FROM message WHERE id = :id")


def origin(database: Database) -> Origin:
    """Give what finds the message that first spoke of a delivery's first order."""

    def look_up(delivery: ClaimedDelivery) -> int | None:
        orders = delivery.orders["orders"] if delivery.orders else []
        keys = [
            Key(str(each["SiteID"]), str(each["PatientMRN"]), str(each["Accession"]))
            for each in orders[:1]
        ]
        with database.read() as connection:
            for known in order_index.find(connection, keys).values():
                parameters = {"id": known.first_message}
                found: int | None = connection.execute(_DIGEST, parameters).scalar()
                return found
        return None

    async def mark(delivery: ClaimedDelivery) -> int | None:
        return await Threads.CONSOLE.run(look_up, delivery)

    return mark
