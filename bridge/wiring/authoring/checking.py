"""Definitions compiled once for as long as nobody changes a letter of what they refer to."""

from collections import OrderedDict
from threading import Lock

from bridge.wiring.drafting import Checked, check
from mappings.nodes import Sources

_MOST = 64

_Key = tuple[str, frozenset[tuple[str, str]]]
_known: OrderedDict[_Key, Checked] = OrderedDict()
_guard = Lock()


def checked(sources: Sources, name: str) -> Checked:
    """Check a definition, or remember what was found; failures are looked at each time."""
    key = name, frozenset(sources.items())
    with _guard:
        if key in _known:
            _known.move_to_end(key)
            return _known[key]
    found = check(sources, name)
    if found.made is not None:
        with _guard:
            _known[key] = found
            while len(_known) > _MOST:
                _known.popitem(last=False)
    return found
