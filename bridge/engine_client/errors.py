"""
What can go wrong with a call to the report service.

* EngineFailure    a call came to nothing; `failure` says whether trying again helps

Carries status, code and place, never a body: those hold patient data.
"""

from bridge.errors import BridgeError
from bridge.queue.states import Failure

_NO_ROUTE = {"not_found", "http_404"}


class EngineFailure(BridgeError):  # noqa: N818  # its kinds are Failure's, and it is named so
    """
    A call to the report service failed.

    `status` is the HTTP status, None when no answer came; `code` the service's own stable
    word for the reason (or ours: `unreachable`, `no_answer`, `unreadable`); `retry_after`
    the seconds that the service asked for.
    """

    def __init__(
        self,
        call: str,
        failure: Failure,
        code: str,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        """Say which call failed, and how; never what was sent or answered."""
        super().__init__(f"{call}: {code} ({'no answer' if status is None else status}), {failure}")
        self.call = call
        self.failure = failure
        self.status = status
        self.code = code
        self.retry_after = retry_after

    @property
    def is_unsupported(self) -> bool:
        """Whether the service does not know the endpoint at all."""
        return self.status in {405, 501} or (self.status == 404 and self.code in _NO_ROUTE)  # noqa: PLR2004  # HTTP's own numbers
