"""Check digits of identifiers (CX.2, CX.3): HL7 v2.5.1 §2A.14."""

_LONGEST = 64
"""Digits of a number that is checked."""


def mod_10(number: str) -> str:
    """Return the check digit M10, "" if the text is not a number."""
    if not number.isdecimal() or len(number) > _LONGEST:
        return ""
    doubled = str(int(number[::-1][::2]) * 2) + number[::-1][1::2]
    return str(-sum(map(int, doubled)) % 10)


def mod_11(number: str) -> str:
    """Return the check digit M11, "" if the text is not a number or has none."""
    if not number.isdecimal():
        return ""
    weights = (2 + index % 6 for index in range(len(number)))
    rest = (
        sum(int(digit) * weight for digit, weight in zip(number[::-1], weights, strict=True)) % 11
    )
    return {10: "0", 11: "1"}.get(11 - rest, str(11 - rest))
