"""The exception that ends a request of the engine with a problem."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from bridge.contract.errors import ErrorCode
from bridge.errors import BridgeError


class EngineError(BridgeError):
    """
    A refusal, with what its response has.

    `pointer` is the JSON pointer of the part of the request that `detail` is about, or empty.
    `errors` are all faulty parts, each with a message. `status` replaces that of the code.
    """

    def __init__(
        self,
        code: ErrorCode,
        detail: str = "",
        *,
        pointer: str = "",
        errors: Sequence[tuple[str, str]] = (),
        status: int = 0,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.code = code
        self.status = status or code.status
        self.detail = detail or code.text
        self.pointer = pointer
        self.errors = ((pointer, self.detail), *errors) if pointer else tuple(errors)
        self.headers = headers
        super().__init__(self.detail)
