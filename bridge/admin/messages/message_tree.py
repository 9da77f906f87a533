"""
The content of a message for its page: the text, the tree whose nodes have positions in it, and the
reply to it, whose errors have places in the tree.

The content contains patient data: show it to users who may read content only, and do not log it.
"""

from contextlib import suppress
from typing import Any

from bridge.admin.messages import dicom_content
from bridge.admin.messages.message_content import message_text, reply_errors
from bridge.delivery.dicom_objects import boundary_of
from mappings.hl7.acknowledgment import read_ack
from mappings.hl7.message import Message
from mappings.hl7.path import InvalidPath, Path
from mappings.hl7.refusals import MessageRefusal
from mappings.hl7.tree import MessageTree, Node, message_tree
from parsers.dicom_file import is_dicom


def content_of(
    payload: bytes, charset: str = "utf-8", reply: bytes | None = None
) -> dict[str, Any]:
    """
    Return `raw`, `charset`, `tree`, `more`, `is_dicom` and `ack` of a message; `tree` for HL7 only.

    `charset` is the codec of the listener, for messages without MSH-18. `start` and `end` of a node
    are positions in `raw`, in UTF-16 units. `more`: the message has more than is shown. DICOM
    objects are shown by their attributes. `ack` is the reply that was sent or received, if any;
    `places` of its errors are those of nodes.
    """
    if is_dicom(payload):
        text, more = dicom_content.text_of(payload)
        ack = _reply(reply, None, charset)
        return _without_tree(text, more=more, is_object=True, ack=ack)
    try:
        message = Message.parse(payload, fallback=charset)
    except MessageRefusal:
        text, ack = message_text(payload, charset), _reply(reply, None, charset)
        return _without_tree(text, is_object=bool(boundary_of(payload)), ack=ack)
    found = message_tree(message)
    return {
        "raw": found.text,
        "charset": message.encoding,
        "tree": [_json(segment) for segment in found.segments],
        "more": found.more,
        "is_dicom": False,
        "ack": _reply(reply, found, charset),
    }


def _without_tree(
    text: str, *, is_object: bool, more: bool = False, ack: dict[str, Any] | None = None
) -> dict[str, Any]:
    found = {"raw": text, "charset": "", "tree": [], "more": more}
    return {**found, "is_dicom": is_object, "ack": ack}


def _reply(reply: bytes | None, tree: MessageTree | None, charset: str) -> dict[str, Any] | None:
    if not reply:
        return None
    code = read_ack(reply).code
    errors = [
        {**error, "places": _places(error["place"], tree)}
        for error in reply_errors(reply, with_texts=True)
    ]
    return {
        "raw": message_text(reply, charset),
        "code": "" if code is None else code.value,
        "errors": errors,
    }


def _places(named: str, tree: MessageTree | None) -> list[str]:
    """Return the places of the nodes that an error names."""
    if tree is None:
        return []
    found = []
    for place in named.split(", "):
        with suppress(InvalidPath):
            found.append(tree.nearest(Path.parse(place)))
    return list(filter(None, dict.fromkeys(found)))


def _json(node: Node) -> dict[str, Any]:
    return {
        "place": node.place,
        "name": node.name,
        "type": node.type,
        "text": node.text,
        "meaning": node.meaning,
        "start": node.start,
        "end": node.end,
        "children": [_json(child) for child in node.children],
    }
