"""
What each process forked for a test would do again: parse the shipped definitions, and scan the
objects of all imports for garbage.

The process from which they are forked imports this module last (`tests/processes.py`).
"""

import gc

from mappings.compiler import DEFINITIONS, compile_sources, definition_names, read_folder

_sources = read_folder(DEFINITIONS)
for _name in definition_names(_sources):
    compile_sources(_sources, _name)
gc.collect()
gc.freeze()
