"""
What can come of asking the process for large messages, beside what it was asked.

* Gone          it ended before it had answered
* Unforeseen    it raised what cannot be said here
"""


class Gone(Exception):  # noqa: N818  # says what happened
    """The process ended, or was ended for taking too long, before it had answered; twice."""


class Unforeseen(Exception):  # noqa: N818  # says what happened
    """Something was raised there that cannot be said here; its class is all that is told."""
