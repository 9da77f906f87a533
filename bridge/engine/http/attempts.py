"""One attempt of a browser to sign in by a provider, and how it fails."""

from dataclasses import dataclass


class NotRecognized(Exception):  # noqa: N818  # named for what happened
    """Nobody was told apart; `code` says why, and never who it was."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Begun:
    """What must come back as it went: one attempt of one browser."""

    redirect: str
    state: str
    nonce: str
    verifier: str
