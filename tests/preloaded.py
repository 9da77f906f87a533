"""
What each process forked for a test would do again: parse the shipped definitions, and scan the
objects of all imports for garbage. They hash passwords with the least work, as the tests do.

The process from which they are forked imports this module last (`tests/processes.py`).
"""

import gc

from argon2 import PasswordHasher
from argon2.profiles import CHEAPEST

from bridge.engine.service.accounts import passwords
from mappings.compiler import DEFINITIONS, compile_sources, definition_names, read_folder

_sources = read_folder(DEFINITIONS)
for _name in definition_names(_sources):
    compile_sources(_sources, _name)
passwords._HASHER = PasswordHasher.from_parameters(CHEAPEST)
gc.collect()
gc.freeze()
