"""
The password policy (NIST SP 800-63B, 5.1.1.2).

A password has at least 12 characters or a zxcvbn score of 3. Common and easily guessed passwords
are refused at any length. Only the first characters are scored, which bounds the cost.
"""

import re
import unicodedata
from typing import Final

from bridge.contract.errors import ErrorCode

MIN_LENGTH: Final = 12
MIN_SCORE: Final = 3
MAX_BYTES: Final = 1024
_GUESSABLE: Final = 1  # zxcvbn: fewer than a million guesses
_SCORED_LENGTH: Final = 64  # characters: zxcvbn's cost grows with the square
_NON_LETTERS: Final = re.compile(r"[\W\d_]+")


def find_weakness(password: str, email: str, name: str = "") -> ErrorCode | None:
    """Return why the policy refuses a password, None if it accepts it."""
    if len(password.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return ErrorCode.PASSWORD_TOO_LONG
    password = unicodedata.normalize(
        "NFKC", password
    )  # also checks full-width forms of a common password
    if not password.strip():
        return ErrorCode.PASSWORD_TOO_WEAK
    own = {_letters(text) for text in (email, email.partition("@")[0], name)} - {""}
    if _letters(password) in own:
        return ErrorCode.PASSWORD_PERSONAL
    if _is_listed(password):
        return ErrorCode.PASSWORD_COMMON
    score = _score(password, [email, *re.split(r"[@\W_]+", email), *name.split()])
    if score <= _GUESSABLE:
        return (
            ErrorCode.PASSWORD_COMMON
            if len(password) >= MIN_LENGTH
            else ErrorCode.PASSWORD_TOO_WEAK
        )
    return (
        None if len(password) >= MIN_LENGTH or score >= MIN_SCORE else ErrorCode.PASSWORD_TOO_WEAK
    )


def _letters(text: str) -> str:
    return _NON_LETTERS.sub("", text.casefold())


def _score(password: str, known: list[str]) -> int:
    from zxcvbn import zxcvbn  # noqa: PLC0415  # its word lists are large

    words = [word[:_SCORED_LENGTH] for word in known if word]
    return int(zxcvbn(password[:_SCORED_LENGTH], user_inputs=words)["score"])


def _is_listed(password: str) -> bool:
    from zxcvbn.frequency_lists import FREQUENCY_LISTS  # noqa: PLC0415  # as above

    return password.casefold() in FREQUENCY_LISTS["passwords"]
