"""
From release to acknowledged result.

One line: the `follower` reads the change feed (`status_poll` where a service has none), the
`change_processor` queues deliveries, the `courier` of a destination has them claimed, composed and
stored (`preparation`, `composer`, `report_texts`, `history`), sends them, and `replies` decides
what follows a reply. `reconciler` compares both sides.
"""
