"""Definitions compiled once for as long as nobody changes a letter of what they are made of."""

import json
from collections import OrderedDict
from threading import Lock

from bridge.wiring.drafting import Checked, check
from bridge.workers.documents import parse
from mappings.nodes import Sources
from parsers.limits import DEFINITIONS

_MOST = 64

_Key = tuple[str, frozenset[str], frozenset[tuple[str, str]]]
_known: OrderedDict[_Key, Checked] = OrderedDict()
_guard = Lock()


def admit(files: Sources) -> None:
    """
    Read files that an author sends in a worker process, before this process reads them.

    Raises TooCostly, Unparsable, WorkerBusy.
    """
    parse("definitions", json.dumps(dict(files)).encode(), limits=DEFINITIONS)


def checked(sources: Sources, name: str) -> Checked:
    """Check a definition, or remember what was found; failures are looked at each time."""
    # A hook is an installed module's only as long as no file has its name.
    hooks = frozenset(file for file in sources if file.endswith(".py"))
    with _guard:
        for key, found in _known.items():
            same = key[:2] == (name, hooks)
            if same and all(sources.get(file) == text for file, text in key[2]):
                _known.move_to_end(key)
                return found
    found = check(sources, name)
    if found.made is not None:
        made_of = frozenset((file, sources[file]) for file in found.made.files)
        with _guard:
            _known[name, hooks, made_of] = found
            while len(_known) > _MOST:
                _known.popitem(last=False)
    return found
