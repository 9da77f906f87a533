"""
Errors of settings.

* SettingsError    has one or more of `Mistake`, each with its place
"""

from dataclasses import dataclass
from typing import Final

from typing_extensions import override

MAX_MISTAKES: Final = 100
"""Maximum number of mistakes that are reported individually."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in a settings file or an environment variable, with its place."""

    place: str
    message: str

    @override
    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class SettingsError(Exception):
    """The settings cannot be used; `mistakes` lists all mistakes."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(str(mistake) for mistake in mistakes))
