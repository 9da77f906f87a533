"""
Delivery: turns the release of a report into an acknowledged result at each destination.

The steps, in order:

1. `change_feed` reads changes of reports, stores them, and queues deliveries in the outbox
   (`destinations`, `known_reports`).
2. `status_poll` replaces the feed for a service without one.
3. `courier`, one for each destination, claims deliveries and has their messages composed
   (`preparation`, `composer`, `delivery_history`).
4. `courier` sends the messages in order.
5. `reply_policy` decides what follows a reply and derives the outcome of the delivery.

`reconciler` periodically compares the orders and results of both sides.
"""
