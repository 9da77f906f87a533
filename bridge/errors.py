"""
The base class of errors, and the kinds of failed attempts.

Error texts contain places, codes and row ids. They contain no part of a message or report.
"""

from enum import StrEnum


class BridgeError(Exception):
    """Base class of all errors of the bridge."""


class FailureKind(StrEnum):
    """Why an attempt to send failed, which determines whether it may be repeated."""

    TRANSIENT = "transient"  # did not arrive: a repetition cannot duplicate it
    AMBIGUOUS = "ambiguous"  # may have arrived: repeated only if the receiver recognizes it
    PERMANENT = "permanent"  # arrived and was refused
