"""Sealed links: opaque handles, and payloads encrypted under a rotating key ring."""

from bridge.engine.links.errors import LinkError, SealBroken, UnknownKey
from bridge.engine.links.handles import Purpose, handle_hash, is_handle, new_handle
from bridge.engine.links.sealing import Binding, KeyRing, Sealed

__all__ = [
    "Binding",
    "KeyRing",
    "LinkError",
    "Purpose",
    "SealBroken",
    "Sealed",
    "UnknownKey",
    "handle_hash",
    "is_handle",
    "new_handle",
]
