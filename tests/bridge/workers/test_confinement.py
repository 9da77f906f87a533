"""A hook in a worker process cannot read, write, connect, signal or start anything."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge.workers import confinement
from bridge.workers.host import WorkerError, WorkerFailed
from bridge.workers.pool import HOOKS, WorkerPool

MESSAGE = "MSH|^~\\&|A|B|C|D|20260101||ORM^O01|1|P|2.5\rPID|1||77\r"

pytestmark = pytest.mark.skipif(
    not {confinement.LANDLOCK, confinement.FILTER} <= set(HOOKS.protections()),
    reason="this kernel or container has neither Landlock nor a filter of system calls",
)

WRITE = """import os
def write(data):
    for fd in range(3, 64):
        try: os.write(fd, data)
        except OSError: pass
"""
"""A function that writes to every open descriptor."""

_TO_LIBC = "import ctypes; libc = ctypes.CDLL(None, use_errno=True); "

_IN_PACKAGES = "import os, sys; packages = os.path.dirname(os.__file__) + '/site-packages'; "

ATTACKS = {
    "reads /etc/passwd": "return open('/etc/passwd').read()",
    "reads it by number": "import os; return os.read(os.open('/etc/passwd', 0), 10)",
    "reads a secret": "return open('{home}/secrets/key').read()",
    "reads past the library": "import os; return open(os.__file__ + '/../../../../../etc/passwd')",
    "reads /proc/self/environ": "return open('/proc/self/environ').read()",
    "reads the service's environment": "return open('/proc/{service}/environ').read()",
    "reads the service's memory": "return open('/proc/{service}/mem', 'rb')",
    "lists the service's descriptors": "import os; return os.listdir('/proc/{service}/fd')",
    "lists HOME": "import os; return os.listdir('{home}')",
    "follows a link of the service": "import os; return os.readlink('/proc/{service}/cwd')",
    "changes its folder": "import os; os.chdir('{home}')",
    "changes its root": "import os; os.chroot('{home}')",
    "writes": "open('{home}/made', 'w').write('x')",
    "appends": "import os; os.open('{home}/secrets/key', os.O_APPEND)",
    "creates by number": "import os; os.open('{home}/made', os.O_CREAT | os.O_RDONLY)",
    "makes a file without a name": "import os; os.memfd_create('x')",
    "removes": "import os; os.unlink('{home}/secrets/key')",
    "renames": "import os; os.rename('{home}/secrets/key', '{home}/other')",
    "links": "import os; os.symlink('/etc/passwd', '{home}/link')",
    "changes a mode": "import os; os.chmod('{home}/secrets/key', 0o777)",
    "makes a folder": "import os; os.mkdir('{home}/folder')",
    "truncates": "import os; os.truncate('{home}/secrets/key', 0)",
    "opens a socket": "import socket; socket.socket(socket.AF_INET)",
    "opens a local socket": "import socket; socket.socket(socket.AF_UNIX)",
    "opens a pair of sockets": "import socket; socket.socketpair()",
    "opens a netlink socket": "import socket; socket.socket(socket.AF_NETLINK, 3)",
    "resolves a name": "import socket; return socket.getaddrinfo('localhost', {port})",
    "forks": "import os; os.fork()",
    "spawns": "import subprocess; subprocess.run(['/bin/true'])",
    "spawns without fork": "import os; os.posix_spawn('/bin/true', ['true'], {{}})",
    "executes": "import os; os.execv('/bin/true', ['true'])",
    "runs a shell": "import os; assert os.system('true') == 0",
    "starts a thread": "import threading; threading.Thread(target=print).start()",
    "starts a raw thread": "import _thread; _thread.start_new_thread(print, ())",
    "kills the service": "import os; os.kill({service}, 9)",
    "asks for the service": "import os; os.kill({service}, 0)",
    "kills its parent": "import os; os.kill(os.getppid(), 9)",
    "kills all": "import os; os.kill(-1, 9)",
    "kills its group": "import os; os.killpg(0, 9)",
    "owns a pipe's signals": (
        "import fcntl; [fcntl.fcntl(fd, fcntl.F_SETOWN, {service}) for fd in range(3, 64)]"
    ),
    "takes an alarm": "import signal; signal.setitimer(signal.ITIMER_REAL, 100)",
    "leaves its session": "import os; os.setsid()",
    "raises a limit": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))",
    "limits the service": "import resource; resource.prlimit({service}, resource.RLIMIT_CPU)",
    "becomes another user": "import os; os.setuid(0)",
    "traces": _TO_LIBC + "assert libc.ptrace(16, {service}, 0, 0) == 0",
    "reads memory": _TO_LIBC + "assert libc.syscall(310, {service}, 0, 0, 0, 0, 0) == 0",
    "mounts": _TO_LIBC + "assert libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0",
    "leaves its namespaces": _TO_LIBC + "assert libc.unshare(0x10000000) == 0",
    "makes a key": _TO_LIBC + "assert libc.syscall(248, b'user', b'a', b'b', 1, -3) > 0",
    "uses io_uring": _TO_LIBC
    + "assert libc.syscall(425, 8, ctypes.create_string_buffer(200)) >= 0",
    "calls by another ABI": _TO_LIBC + "assert libc.syscall(0x40000000 + 39) > 0",
    "shares memory": _TO_LIBC + "assert libc.shmget(0, 4096, 0o1600) >= 0",
    "loads a library": "import ctypes; ctypes.CDLL('libssl.so.3')",
    "imports the bridge": "import bridge.store.database",
    "imports what is installed": "import sqlalchemy",
    "reads what is installed": _IN_PACKAGES + "return open(f'{{packages}}/pip/__init__.py').read()",
    "imports what is installed by its path": _IN_PACKAGES + "sys.path.append(packages); import pip",
}

TOO_MUCH = {
    "hangs": "while True: pass",
    "sleeps": "import time; time.sleep(1000)",
    "hangs in C": "return 10 ** 10 ** 8",
    "hangs in a pattern": "import re; re.match('(a+)+$', 'a' * 60 + '!')",
    "allocates": "return len([bytearray(10 ** 7) for _ in range(10 ** 6)])",
    "exits": "import os; os._exit(0)",
    "aborts": "import os; os.abort()",
    "crashes": "import ctypes; ctypes.string_at(0)",
    "returns too much": "return 'x' * 10 ** 8",
    "raises SystemExit": "raise SystemExit(0)",
    "blocks all signals": (
        "import signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n"
        "for each in range(1, 65):\n"
        "    try: signal.signal(each, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\n"
        "while True: pass"
    ),
    "closes its pipe and continues": ("import os\nos.closerange(3, 64)\nwhile True: pass"),
    "announces more than it sends": WRITE + "write(b'\\0\\0\\0\\xffJ1'); os._exit(0)",
    "announces too much": WRITE + "write(b'\\xff' * 100); os._exit(0)",
    "sends no JSON": WRITE + "write(b'\\0\\0\\0\\5J{{\"a\"'); os._exit(0)",
    "sends deep JSON": (WRITE + "write(b'\\0\\1\\x86\\xa1J' + b'[' * 100000); os._exit(0)"),
    "sends a pickle": WRITE + "write(b'\\0\\0\\0\\5\\x80N.xx'); os._exit(0)",
}


def called(body: str, *, seconds: float = 60, **about: object) -> str:
    """Run a hook with this body; it may use the paths of HOME and of the service."""
    lines = body.format(**about).replace("\n", "\n    ")
    arguments = {"module": "h", "function": "f", "text": MESSAGE}
    source = f"def f(message):\n    {lines}\n    return 'no objection'\n".encode()
    limits: dict[str, Any] = {"seconds": seconds, "processor": 1, "wait": 60, "max_bytes": 10**6}
    return str(HOOKS.call("call", source, arguments, **limits))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A HOME with a secret that must not change."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/key").write_text("tops3cret", "utf-8")
    yield tmp_path
    assert [path.name for path in tmp_path.rglob("*")] == ["secrets", "key"]
    assert (tmp_path / "secrets/key").read_text("utf-8") == "tops3cret"


@pytest.mark.parametrize("body", ATTACKS.values(), ids=ATTACKS)
def test_everything_except_computing_is_refused(body: str, home: Path) -> None:
    """The call fails, the data directory is unchanged, and the next call works."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(WorkerError):
            called(body, home=home, service=os.getpid(), port=port)
    assert called("return 'fine'") == "fine"


@pytest.mark.parametrize("body", TOO_MUCH.values(), ids=TOO_MUCH)
def test_a_fault_ends_only_its_own_call(body: str) -> None:
    """Endless, too large, crashed or forged: the call fails; the same workers serve the next."""
    called("return 'fine'")
    before = HOOKS.pids
    with pytest.raises(WorkerError):
        called(body, seconds=3)
    assert called("return 'fine'") == "fine"
    assert HOOKS.pids == before


def test_a_hook_changes_nothing_for_the_next_one() -> None:
    """Parser, built-in names and the seed of random numbers are as before."""
    poison = (
        "import builtins, hl7, json, sys\n"
        "hl7.parse = json.dumps = builtins.str = builtins.len = None\n"
        "sys.modules.clear()"
    )
    with pytest.raises(WorkerFailed):
        called(poison)
    assert called("return str(message.segment('PID')[3])") == "77"
    chance = "import random; return random.random()"
    assert called(chance) != called(chance)
    assert called(_TO_LIBC + "return libc.getpid() > 0") == "True"


def test_a_hook_keeps_no_state() -> None:
    """Each call runs the file again."""
    arguments = {"module": "h", "function": "f", "text": MESSAGE}
    source = b"seen = []\ndef f(message):\n    seen.append(1)\n    return len(seen)\n"
    assert {HOOKS.call("call", source, arguments, seconds=60) for _ in range(4)} == {"1"}


def test_a_forged_response_reaches_its_own_call_only() -> None:
    """Other output of a hook reaches no other call."""
    forged = WRITE + "write(b'\\0\\0\\0\\4J\"x\"' * 1000); return 'mine'"
    assert called(forged) == "x"
    for _ in range(3):
        assert called("return 'fine'") == "fine"


def test_threads_of_the_service_share_the_workers() -> None:
    found: dict[int, str] = {}

    def ask(number: int) -> None:
        found[number] = called(f"return {number}")

    threads = [threading.Thread(target=ask, args=(item,)) for item in range(12)]
    for thread in threads:
        thread.start()
    for item in threads:
        item.join()
    assert found == {item: str(item) for item in range(12)}


def test_without_landlock_no_file_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Landlock the filter allows no open; the missing step is reported."""
    program = confinement.program(can_open=False)
    assert len(program) < len(confinement.program(can_open=True))


def test_active_protections_are_reported() -> None:
    """By name, in a fixed order."""
    pool = WorkerPool("test", [], size=1)
    active = pool.protections()
    pool.close()
    assert [
        protection for protection in confinement.ALL_PROTECTIONS if protection in active
    ] == active
