"""
Confinement of the current process by the kernel.

Linux supports all steps. Some containers and older kernels support fewer steps, other systems only
limits. The functions take each step that is possible and return the names of the active steps,
which `bridge check` lists. A process cannot undo a step.

A worker process has two stages. `confine` is for the process that starts a child process for each
call (`zygote`): it never runs foreign code. `ProcessSeal` is for the child process, before its task
runs: no further process, no socket, no writing, and no system call that the filter of `program`
does not allow.
"""

import ctypes
import ctypes.util
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from struct import pack

# Operation codes of BPF, and results of a seccomp filter
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOTTY = 1, 25
_X32 = 0x40000000  # system call numbers of the x32 ABI start here

_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_COLUMN = {"x86_64": 0, "aarch64": 1}
_NONE = -1  # the processor lacks the system call

_ALLOWED_CALLS = {
    # memory
    "brk": (12, 214),
    "madvise": (28, 233),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "munmap": (11, 215),
    # open descriptors, and files that Landlock lets the process read
    "close": (3, 57),
    "dup": (32, 23),
    "fstat": (5, 80),
    "getcwd": (79, 17),
    "getdents64": (217, 61),
    "lseek": (8, 62),
    "lstat": (6, _NONE),
    "newfstatat": (262, 79),
    "poll": (7, _NONE),
    "ppoll": (271, 73),
    "pread64": (17, 67),
    "pselect6": (270, 72),
    "read": (0, 63),
    "readv": (19, 65),
    "select": (23, _NONE),
    "stat": (4, _NONE),
    "statx": (332, 291),
    "write": (1, 64),
    "writev": (20, 66),
    # clocks, locks, random numbers, and the process itself
    "clock_getres": (229, 114),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "futex": (202, 98),
    "getcpu": (309, 168),
    "getegid": (108, 177),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getpid": (39, 172),
    "getppid": (110, 173),
    "getrandom": (318, 278),
    "getrlimit": (97, 163),
    "getrusage": (98, 165),
    "gettid": (186, 178),
    "gettimeofday": (96, 169),
    "getuid": (102, 174),
    "membarrier": (324, 283),
    "nanosleep": (35, 101),
    "restart_syscall": (219, 128),
    "rseq": (334, 293),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_getaffinity": (204, 123),
    "sched_yield": (24, 124),
    "set_robust_list": (273, 99),
    "sigaltstack": (131, 132),
    "sysinfo": (99, 179),
    "time": (201, _NONE),
    "times": (100, 153),
    "uname": (63, 160),
}
"""System calls that are allowed with all arguments: their numbers on x86_64 and aarch64."""

_OPEN, _OPENAT = (2, _NONE), (257, 56)
_FCNTL, _PRLIMIT, _IOCTL = (72, 25), (302, 261), (16, 29)

_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_FCNTL_COMMANDS = (0, 1, 2, 3, 1030)
"""
F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC.

Not F_SETFL with F_SETOWN and F_SETSIG: these make the kernel send any signal to any process.
"""


def is_supported() -> bool:
    """True if the filter supports this machine's processor."""
    return platform.machine() in _AUDIT and struct.calcsize("P") == 8  # noqa: PLR2004  # bytes


def program(*, can_open: bool) -> bytes:
    """
    Return the filter for this machine, as an array of `struct sock_filter`.

    `can_open` allows opening files for reading: for a process that Landlock restricts.
    """
    machine = platform.machine()
    column = _COLUMN[machine]
    code = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, _AUDIT[machine], yes=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
        _step(_AT_LEAST, _X32, no=1),
        _step(_RETURN, _KILL),
    ]
    for numbers in _ALLOWED_CALLS.values():
        code += _if_number(numbers[column], [_step(_RETURN, _ALLOW)])
    for numbers, argument in ((_OPEN, 1), (_OPENAT, 2)) if can_open else ():
        code += _if_number(numbers[column], _unless_bits(argument, _WRITE_FLAGS))
    code += _if_number(_FCNTL[column], _if_one_of(1, _FCNTL_COMMANDS))
    code += _if_number(_PRLIMIT[column], _if_null(0, 2))
    code += _if_number(_IOCTL[column], [_step(_RETURN, _FAIL | _ENOTTY)])
    return b"".join([*code, _step(_RETURN, _FAIL | _EPERM)])


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    """Return a BPF instruction; a comparison skips `yes` or `no` instructions after it."""
    return struct.pack("=HBBI", code, yes, no, value)


def _if_number(number: int, then: list[bytes]) -> list[bytes]:
    """Run `then`, which returns, for one system call. Empty if the processor lacks the call."""
    return [] if number == _NONE else [_step(_EQUAL, number, no=len(then)), *then]


def _unless_bits(argument: int, bits: int) -> list[bytes]:
    return [
        _step(_LOAD, _ARGUMENTS + 8 * argument),
        _step(_ANY_BIT, bits, no=1),
        _step(_RETURN, _FAIL | _EPERM),
        _step(_RETURN, _ALLOW),
    ]


def _if_one_of(argument: int, values: tuple[int, ...]) -> list[bytes]:
    # A match skips to the last instruction, which allows the call.
    tests = [_step(_EQUAL, value, yes=len(values) - at) for at, value in enumerate(values)]
    load = _step(_LOAD, _ARGUMENTS + 8 * argument)
    return [load, *tests, _step(_RETURN, _FAIL | _EPERM), _step(_RETURN, _ALLOW)]


def _if_null(first: int, second: int) -> list[bytes]:
    """Allow the call if both arguments are 0: prlimit(2) that reads the process's own limits."""
    # A filter reads 32 bits at a time. The first argument is an int, the second one a pointer.
    offsets = [8 * first, 8 * second, 8 * second + 4]
    code = []
    for offset in offsets:
        code += [
            _step(_LOAD, _ARGUMENTS + offset),
            _step(_EQUAL, 0, yes=1),
            _step(_RETURN, _FAIL | _EPERM),
        ]
    return [*code, _step(_RETURN, _ALLOW)]


LIMITS = "limits on memory, processor time and files"
NO_PRIVILEGES = "no new privileges"
NAMESPACES = "own network, IPC and user namespaces"
LANDLOCK = "Landlock: only files of the standard library"
FILTER = "system call filter"

ALL_PROTECTIONS = (LIMITS, NO_PRIVILEGES, NAMESPACES, LANDLOCK, FILTER)
"""The steps in the order in which they are reported."""

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_SECCOMP_MODE_FILTER = 2
_NEW_NAMESPACES = 0x10000000 | 0x40000000 | 0x08000000 | 0x04000000  # user, net, ipc, uts
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_PACKAGE_FOLDERS = (
    "site-packages",
    "dist-packages",
)  # below the standard library in some installations
_MAX_FILES = 64
_OOM_SCORE = "1000"  # the maximum: the kernel ends this process before the service


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
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _MAX_FILES),
        (resource.RLIMIT_AS, memory),
    ):
        resource.setrlimit(kind, (most, most))
    return True


class ProcessSeal:
    """
    Seals the child process that runs a task: limits, and the filter of system calls.

    The parent process builds the filter before it starts the child process.
    """

    def __init__(self, *, can_open: bool) -> None:
        """Build the filter; without `can_open` the process cannot open files."""
        has_filter = sys.platform == "linux" and is_supported()
        code = program(can_open=can_open) if has_filter else b""
        self._code = ctypes.create_string_buffer(code, len(code))
        # struct sock_fprog: the number of instructions, and their address
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
    files = [os.__file__, *(getattr(module, "__file__", None) for module in modules)]
    native = [Path(file).parent for file in files if file and "lib-dynload" in file]
    zones = [folder for folder in (Path("/usr/share/zoneinfo"),) if folder.is_dir()]
    return list(dict.fromkeys([Path(os.__file__).parent, *native, *zones]))


def _prctl(option: int, *arguments: int) -> bool:
    if _LIBRARY is None or sys.platform != "linux":
        return False
    numbers = [ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:4]]
    return bool(_LIBRARY.prctl(option, *numbers) == 0)


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
    # One bit for each access right to files that this version of Landlock knows
    file_rights = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
    fields = [file_rights]
    if version >= 4:  # noqa: PLR2004  # network: bind and connect
        fields.append(0b11)
    if version >= 6:  # noqa: PLR2004  # scopes: abstract sockets and signals
        fields.append(0b11)
    attributes = pack(f"={len(fields)}Q", *fields)
    ruleset = call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        return False
    try:
        for folder in folders:
            _grant(ruleset, folder, _READ_DIR)
            for entry in folder.iterdir():
                _grant_reading(ruleset, entry)
        return bool(call(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _grant_reading(ruleset: int, entry: Path) -> None:
    """Grant reading an entry of a library folder, except installed packages and links."""
    if entry.name not in _PACKAGE_FOLDERS and not entry.is_symlink():
        with suppress(FileNotFoundError):  # removed since the folder was listed
            _grant(ruleset, entry, _READ_FILE | _READ_DIR if entry.is_dir() else _READ_FILE)


def _grant(ruleset: int, path: Path, access: int) -> None:
    assert _LIBRARY is not None  # noqa: S101  # checked by the caller
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = pack("=Qi", access, descriptor)
        _LIBRARY.syscall(_ADD_RULE, ruleset, 1, rule, 0)
    finally:
        os.close(descriptor)


def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None, use_errno=True)
    except (OSError, TypeError):
        return None


_LIBRARY = _library()
