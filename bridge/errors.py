"""
The root of what can go wrong inside the bridge.

* BridgeError                 every error of our own
    * bridge.store.errors     the database
    * bridge.queue.errors     the durable queue

Messages bear places, codes and row ids, never what a message or a report says.
"""


class BridgeError(Exception):
    """Something went wrong that a caller may want to tell apart."""
