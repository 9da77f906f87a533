"""
HL7 v2 in bytes and text: messages, paths, escapes, refusals, acknowledgments.

Pure: no I/O, no clock, no framework. What an order is, is said one floor up, in `mappings`.
"""

from mappings.hl7.acknowledgment import Acknowledgment, build_ack, read_ack, unframed_nak
from mappings.hl7.delimiters import Delimiters
from mappings.hl7.header import Header, peek
from mappings.hl7.message import Message, Segment
from mappings.hl7.path import BadPath, Path
from mappings.hl7.refusals import Malformed, Refusal
from mappings.hl7.tables import AckCode, ErrorCode

__all__ = [
    "AckCode",
    "Acknowledgment",
    "BadPath",
    "Delimiters",
    "ErrorCode",
    "Header",
    "Malformed",
    "Message",
    "Path",
    "Refusal",
    "Segment",
    "build_ack",
    "peek",
    "read_ack",
    "unframed_nak",
]
