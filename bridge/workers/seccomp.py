"""The system call filter of worker processes: an allow-list as a seccomp BPF program.

A task computes: it needs memory, clocks, locks, its open descriptors, and read-only files of the
standard library. Every other system call fails with EPERM: sockets, new processes and threads,
signals to processes, tracing, mounting, keys, shared memory, io_uring, and calls that later
kernels add. Source: seccomp(2), and the kernel's tables of system call numbers.
"""

import os
import platform
import struct

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOTTY = 1, 25
_X32 = 0x40000000  # numbers of the x32 ABI start here

_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_COLUMN = {"x86_64": 0, "aarch64": 1}
_NONE = -1

_FREE = {
    # memory
    "brk": (12, 214),
    "madvise": (28, 233),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "munmap": (11, 215),
    # descriptors that are open, and files that Landlock lets it read
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
_OPEN, _OPENAT = (2, _NONE), (257, 56)
_FCNTL, _PRLIMIT, _IOCTL = (72, 25), (302, 261), (16, 29)

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_FCNTL_COMMANDS = (0, 1, 2, 3, 1030)
"""
F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC.

Not F_SETFL with F_SETOWN and F_SETSIG: these make the kernel send any signal to any process.
"""


def is_supported() -> bool:
    """Tell whether the filter supports this machine's processor."""
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
    for numbers in _FREE.values():
        code += _if_number(numbers[column], [_step(_RETURN, _ALLOW)])
    for numbers, argument in ((_OPEN, 1), (_OPENAT, 2)) if can_open else ():
        code += _if_number(numbers[column], _unless_bits(argument, _WRITING))
    code += _if_number(_FCNTL[column], _if_one_of(1, _FCNTL_COMMANDS))
    code += _if_number(_PRLIMIT[column], _if_null(0, 2))
    code += _if_number(_IOCTL[column], [_step(_RETURN, _FAIL | _ENOTTY)])
    return b"".join([*code, _step(_RETURN, _FAIL | _EPERM)])


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
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
    tests = [
        _step(_EQUAL, each, yes=len(values) - at) for at, each in enumerate(values)
    ]  # to the last step
    load = _step(_LOAD, _ARGUMENTS + 8 * argument)
    return [load, *tests, _step(_RETURN, _FAIL | _EPERM), _step(_RETURN, _ALLOW)]


def _if_null(first: int, second: int) -> list[bytes]:
    """Allow the call if both arguments are 0: prlimit(2) that reads the process's own limits."""
    words = [8 * first, 8 * second, 8 * second + 4]
    code = []
    for word in words:
        code += [
            _step(_LOAD, _ARGUMENTS + word),
            _step(_EQUAL, 0, yes=1),
            _step(_RETURN, _FAIL | _EPERM),
        ]
    return [*code, _step(_RETURN, _ALLOW)]
