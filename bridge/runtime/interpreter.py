"""How the interpreter is set for a process that serves: collector, turns of threads, memory."""

import ctypes
import gc
import sys
from contextlib import suppress

_TURN = 0.0005  # seconds
_NEW_OBJECTS = 20_000  # before the collector looks at them
_PAGES_FROM = -3  # M_MMAP_THRESHOLD of malloc.h
_LARGE_MEMORY = 2**20  # bytes


def settle_down() -> None:
    """Set all of it, when everything that stays is there."""
    spare_the_collector()
    take_short_turns()
    give_large_memory_back()


def spare_the_collector() -> None:
    """
    Let the garbage collector leave alone what start-up made, and look less often.

    Hundreds of thousands of objects live as long as the process; to walk them again and again
    while messages come in costs as much as the messages (measured: half of the intake's time).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 20, 50)
    gc.enable()


def take_short_turns() -> None:
    """
    Let the loop have its turn soon while threads compute.

    Each call to the database gives the interpreter away, and to get it back from a thread that
    computes takes up to this long: by default five milliseconds for each statement.
    """
    sys.setswitchinterval(_TURN)


def give_large_memory_back() -> None:
    """
    Let what is larger than a mebibyte have pages of its own (glibc; elsewhere nothing is changed).

    As it grows they are moved and not copied, for which everybody would wait; and the system has
    them back at once. By itself the library does so only until the first large one was let go.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_PAGES_FROM, _LARGE_MEMORY)
