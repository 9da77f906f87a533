"""The error of refused documents."""


class DocumentRefused(ValueError):
    """
    A document exceeds a limit or is malformed; no part of it was used.

    `reason` contains no value of the document. `line` and `column` count from 1; 0 is unknown.
    """

    def __init__(self, reason: str, line: int = 0, column: int = 0) -> None:
        self.reason, self.line, self.column = reason, line, column
        super().__init__(reason)
