"""
Confinement of the current process by the kernel.

Linux supports all steps. Some containers and older kernels support fewer steps, other systems only
limits. The functions take each step that is possible and return the names of the active steps,
which `bridge check` lists. A process cannot undo a step.

A worker process has two stages. `confine` is for the process that starts a child process for each
call (`zygote`): it never runs foreign code. `ProcessSeal` is for the child process, before its task
runs: no further process, no socket, no writing, and no system call that the filter of `seccomp`
does not allow.
"""

import ctypes
import ctypes.util
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from struct import pack

from bridge.workers import seccomp

LIMITS = "limits on memory, processor time and files"
NO_PRIVILEGES = "no new privileges"
NAMESPACES = "own network, IPC and user namespaces"
LANDLOCK = "Landlock: no file but the standard library's"
FILTER = "system call filter"

ALL_PROTECTIONS = (LIMITS, NO_PRIVILEGES, NAMESPACES, LANDLOCK, FILTER)
"""The steps in the order in which they are reported."""

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_SECCOMP_MODE_FILTER = 2
_NEW_NAMESPACES = 0x10000000 | 0x40000000 | 0x08000000 | 0x04000000  # user, net, ipc, uts
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_MOST_FILES = 64
_FIRST_TO_GO = "1000"  # the out-of-memory killer ends this process before the service


def confine(memory: int, folders: Sequence[Path]) -> list[str]:
    """
    Confine a process that starts child processes; `memory` is its address space in bytes.

    It can read only files below `folders` afterwards. Returns the active steps.
    """
    active = []
    steps: tuple[tuple[str, Callable[[], bool]], ...] = (
        (LIMITS, lambda: limit(memory)),
        (NO_PRIVILEGES, lambda: _prctl(_PR_SET_NO_NEW_PRIVS, 1) and _prctl(_PR_SET_DUMPABLE, 0)),
        (NAMESPACES, _leave_namespaces),
        (LANDLOCK, lambda: _restrict_files(folders)),
    )
    for name, step in steps:
        with suppress(OSError, ValueError, AttributeError):
            if step():
                active.append(name)
    return active


def limit(memory: int) -> bool:
    """
    Limit a process to `memory` bytes of address space, few files and no core dump. Returns True.

    If the system runs out of memory, it ends this process before the service.
    """
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO)
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _MOST_FILES),
        (resource.RLIMIT_AS, memory),
    ):
        resource.setrlimit(kind, (most, most))
    return True


class ProcessSeal:
    """The last step, in the child process that runs a task. Prepared before the child starts."""

    def __init__(self, *, can_open: bool) -> None:
        """Build the filter; without `can_open` the process cannot open files."""
        has_filter = sys.platform == "linux" and seccomp.is_supported()
        code = seccomp.program(can_open=can_open) if has_filter else b""
        self._code = ctypes.create_string_buffer(code, len(code))
        head = pack("@HxxxxxxP", len(code) // 8, ctypes.addressof(self._code))
        self._program = ctypes.create_string_buffer(head, len(head))
        self._has_filter = has_filter

    def apply(self, seconds: int) -> list[str]:
        """Confine this process; `seconds` of processor time. Returns the active steps."""
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for kind, soft, hard in (
            (resource.RLIMIT_CPU, seconds, seconds + 1),  # SIGXCPU first: it names the cause
            (resource.RLIMIT_FSIZE, 0, 0),
            (getattr(resource, "RLIMIT_NPROC", None), 0, 0),
            (getattr(resource, "RLIMIT_MSGQUEUE", None), 0, 0),
        ):
            if kind is not None:
                with suppress(OSError, ValueError):
                    resource.setrlimit(kind, (soft, hard))
        address = ctypes.addressof(self._program)
        if self._has_filter and _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, address):
            return [FILTER]
        return []


def library_folders() -> list[Path]:
    """Return the folders of the standard library, which a task may read."""
    modules = sys.modules.values()
    files = [os.__file__, *(getattr(each, "__file__", None) for each in modules)]
    native = [Path(each).parent for each in files if each and "lib-dynload" in each]
    zones = [each for each in (Path("/usr/share/zoneinfo"),) if each.is_dir()]
    return list(dict.fromkeys([Path(os.__file__).parent, *native, *zones]))


def _prctl(option: int, *arguments: int) -> bool:
    if _LIBRARY is None or sys.platform != "linux":
        return False
    given = [ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:4]]
    return bool(_LIBRARY.prctl(option, *given) == 0)


def _leave_namespaces() -> bool:
    return _LIBRARY is not None and _LIBRARY.unshare(_NEW_NAMESPACES) == 0


def _restrict_files(folders: Sequence[Path]) -> bool:
    """Use Landlock (landlock(7)): all access is restricted, reading below `folders` is granted."""
    if _LIBRARY is None or sys.platform != "linux":
        return False
    call = _LIBRARY.syscall
    version = call(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    files = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
    words = [files]
    if version >= 4:  # noqa: PLR2004  # network: bind and connect
        words.append(0b11)
    if version >= 6:  # noqa: PLR2004  # scopes: abstract sockets and signals
        words.append(0b11)
    attributes = pack(f"={len(words)}Q", *words)
    ruleset = call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        return False
    try:
        for folder in folders:
            _grant_reading(ruleset, folder)
        return bool(call(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _grant_reading(ruleset: int, folder: Path) -> None:
    assert _LIBRARY is not None  # noqa: S101  # checked by the caller
    descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = pack("=Qi", _READ_FILE | _READ_DIR, descriptor)
        _LIBRARY.syscall(_ADD_RULE, ruleset, 1, rule, 0)
    finally:
        os.close(descriptor)


def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None, use_errno=True)
    except (OSError, TypeError):
        return None


_LIBRARY = _library()
