"""
The content of a message for its page: the text, and the tree whose nodes have positions in it.

The content contains patient data: show it to users who may read content only, and do not log it.
"""

from typing import Any

from bridge.admin.search.message_content import message_text
from mappings.hl7.message import Message
from mappings.hl7.refusals import MessageRefusal
from mappings.hl7.tree import Node, message_tree


def tree_of(payload: bytes, charset: str = "utf-8") -> dict[str, Any]:
    """
    Return `raw`, `charset`, `tree` and `more` of a message; without a tree if it is not HL7.

    `charset` is the codec of the listener, for messages without MSH-18. `start` and `end` of a node
    are positions in `raw`, in UTF-16 units. `more`: the message has segments beyond the tree.
    """
    try:
        message = Message.parse(payload, fallback=charset)
    except MessageRefusal:
        return {"raw": message_text(payload, charset), "charset": "", "tree": [], "more": False}
    found = message_tree(message)
    return {
        "raw": found.text,
        "charset": message.encoding,
        "tree": [_json(segment) for segment in found.segments],
        "more": found.more,
    }


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
