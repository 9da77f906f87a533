"""The refusals of the engine, and the exceptions that end a request with one."""

from collections.abc import Sequence

from bridge.contract.errors import ErrorCode
from bridge.errors import BridgeError


class EngineError(BridgeError):
    """
    A refusal. `pointer` is the JSON pointer of the faulty part of the request, or empty.

    `more` are further faulty parts, each with its detail. `status` replaces that of the code.
    """

    def __init__(
        self,
        code: ErrorCode,
        detail: str = "",
        *,
        pointer: str = "",
        more: Sequence[tuple[str, str]] = (),
        status: int = 0,
    ) -> None:
        self.code = code
        self.status = status or code.status
        self.detail = detail or code.text
        self.pointer = pointer
        self.more = tuple(more)
        super().__init__(self.detail)
