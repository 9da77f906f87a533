"""Why a document is refused."""


class DocumentRefused(ValueError):  # noqa: N818  # named for what happened
    """
    A document exceeds a limit or is malformed; nothing of it was used.

    `reason` says why without a value of the document. `line` and `column` count from 1, and are 0
    where the place is not known.
    """

    def __init__(self, reason: str, line: int = 0, column: int = 0) -> None:
        self.reason, self.line, self.column = reason, line, column
        super().__init__(reason)
