"""The password policy."""

import pytest

from bridge.engine.rules.passwords import MAX_BYTES, Weakness, find_weakness


@pytest.mark.parametrize(
    ("password", "refused"),
    [
        ("correct horse battery", None),
        ("Tr0ub4dor&3x", None),
        ("Xk3$9qLp2z", None),  # ten characters, hard to guess
        ("short", Weakness.TOO_WEAK),
        ("Xk3$9q", Weakness.TOO_WEAK),
        ("password", Weakness.COMMON),
        ("Password1234", Weakness.COMMON),
        ("P@ssw0rd1234", Weakness.COMMON),
        ("aaaaaaaaaaaaaaaa", Weakness.COMMON),
        ("1234567890123", Weakness.COMMON),
        ("passwordpassword", Weakness.COMMON),
        ("\uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff441234", Weakness.COMMON),  # full width
        ("\uff41da@site1.test", Weakness.PERSONAL),
        ("ada@site1.test", Weakness.PERSONAL),
        ("Ada Reader 2026", Weakness.PERSONAL),
        ("", Weakness.TOO_WEAK),
        ("x" * (MAX_BYTES + 1), Weakness.TOO_LONG),
        ("\u00e9" * MAX_BYTES, Weakness.TOO_LONG),
    ],
)
def test_weak_passwords_are_refused(password: str, refused: Weakness | None) -> None:
    """At least 12 characters or a score of 3, not common, not the own name or address."""
    assert find_weakness(password, "ada@site1.test", "Ada Reader") is refused
