"""
Fail the k-th system call of one kind in the running service: sockets, descriptors, threads, memory.

`strace` injects the error; it counts the calls of each thread separately.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.eventually import PATIENCE, eventually
from tests.programs import STRACE
from tests.sweep.scenarios import SCENARIOS, Observations
from tests.sweep.sweep import Installation, Swept, broken_promises, repeat

FAULTS = {
    "recvfrom": ("ECONNRESET", "ETIMEDOUT"),
    "sendto": ("ECONNRESET", "EPIPE"),
    "accept4": ("EMFILE", "ENOBUFS", "ECONNABORTED"),
    "socket": ("EMFILE", "ENOBUFS"),
    "connect": ("ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH"),
    "openat": ("EMFILE", "EACCES"),
    "clone3": ("EAGAIN",),
    "epoll_ctl": ("ENOMEM", "ENOSPC"),
}


@contextmanager
def traced(pids: Sequence[int], log: Path, *options: str) -> Iterator[None]:
    """Trace processes and their threads until the block ends."""
    command = [
        STRACE.require(),
        "-f",
        "-qq",
        "-o",
        str(log),
        *options,
        "-p",
        ",".join(map(str, pids)),
    ]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def is_tracing() -> bool:
        states = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
        return not any("TracerPid:\t0" in state for state in states)

    eventually(lambda: is_tracing() or process.poll() is not None)
    assert process.poll() is None, "strace does not trace"
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


def sweep_calls(
    installation: Installation, scenario: str, first: int, log: Path, step: int = 1
) -> Swept:
    """Run a scenario once for each call of each kind and each of its errors."""
    swept, observed, house = Swept(), Observations(), installation.house
    run_scenario, number = SCENARIOS[scenario], first
    with traced(installation.processes(), log, "-e", f"trace={','.join(FAULTS)}"):
        run_scenario(house, observed, number)
        house.settle()
    printed = log.read_text()
    for name, errors in FAULTS.items():
        count = min(printed.count(f" {name}("), 40)
        swept.calls += count
        for call in range(1, count + 1, step):
            for error in errors:
                number += 1
                inject = f"inject={name}:error={error}:when={call}"
                with traced(installation.processes(), log, "-e", f"trace={name}", "-e", inject):
                    run_scenario(house, observed, number)
                swept.faults += 1
                try:
                    swept.restarts += installation.revive()
                except AssertionError as problem:
                    swept.wrong.append(f"{name} {error} at {call}: {str(problem)[-800:]}")
                    return swept
    repeat(house, observed)
    swept.wrong += broken_promises(installation, observed)
    return swept
