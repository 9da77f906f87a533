"""
Delivery: turns the release of a report into an acknowledged result at each destination.

The steps, in order:

1. `change_feed_reader` reads changes of reports; `status_poll` replaces it for a service without a
   change feed.
2. `change_processor` stores the changes and queues deliveries in the outbox (`report_events`,
   `known_reports`).
3. `courier`, one for each destination, claims deliveries and has their messages composed
   (`preparation`, `composer`, `report_texts`, `delivery_history`).
4. `courier` sends the messages in order.
5. `reply_policy` decides what follows a reply; `outcome_policy` derives the outcome of the
   delivery.

`reconciler` periodically compares the orders and results of both sides.
"""
