"""Count requests against quotas, and say in the RateLimit headers what is left.

A fixed window a (key, policy), as draft-ietf-httpapi-ratelimit-headers-11 describes
it. Lives in this process only: several nodes grant each their own share. A request costs the same
however many windows there are, and their number is bounded.
"""

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from bridge.engine.settings import Quota

Clock = Callable[[], int]
"""Milliseconds of a clock that is never set."""

MOST_WINDOWS = 150_000
"""Windows of one policy; beyond them the oldest is forgotten."""

_EXPIRED_AT_ONCE = 2
"""Windows that ended and are forgotten with each new one: more than come into being."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a caller may still do: `remaining` requests until `resets_in` seconds from now."""

    policy: str
    quota: Quota
    remaining: int
    resets_in: int
    granted: bool

    def headers(self) -> dict[str, str]:
        """Return RateLimit-Policy and RateLimit, and Retry-After when refused."""
        headers = {
            "RateLimit-Policy": f'"{self.policy}";q={self.quota.count};w={self.quota.seconds}',
            "RateLimit": f'"{self.policy}";r={self.remaining};t={self.resets_in}',
        }
        if not self.granted:
            headers["Retry-After"] = str(self.resets_in)
        return headers


def monotonic_ms() -> int:
    """Return milliseconds of the monotonic clock."""
    return time.monotonic_ns() // 1_000_000


class QuotaMeter:
    """The windows of all callers, those of a policy in the order in which they began."""

    def __init__(self, clock: Clock = monotonic_ms, most: int = MOST_WINDOWS) -> None:
        self._clock = clock
        self._most = most
        self._windows: dict[str, OrderedDict[str, tuple[int, int]]] = defaultdict(OrderedDict)

    def take(self, policy: str, key: str, quota: Quota, count: int = 1) -> Allowance | None:
        """Count `count` requests; None when the quota is off."""
        if quota.count <= 0:
            return None
        now, windows = self._clock(), self._windows[policy]
        ends, used = self._window(policy, key, quota, now)
        used += count
        if used == count:  # a new window, or one that had ended
            windows.pop(key, None)
            self._forget(windows, now)
        windows[key] = (ends, used)
        return self._allowance(policy, quota, ends - now, used)

    def peek(self, policy: str, key: str, quota: Quota) -> Allowance | None:
        """Return the same answer as one more `take` would get, without counting."""
        if quota.count <= 0:
            return None
        now = self._clock()
        ends, used = self._window(policy, key, quota, now)
        return self._allowance(policy, quota, ends - now, used + 1)

    def __len__(self) -> int:
        return sum(map(len, self._windows.values()))

    def _window(self, policy: str, key: str, quota: Quota, now: int) -> tuple[int, int]:
        ends, used = self._windows[policy].get(key, (0, 0))
        return (ends, used) if used and ends > now else (now + quota.seconds * 1000, 0)

    def _forget(self, windows: OrderedDict[str, tuple[int, int]], now: int) -> None:
        """Drop a few of the oldest windows that have ended, and one where there are too many."""
        for _ in range(_EXPIRED_AT_ONCE):
            oldest = next(iter(windows.items()), None)
            if oldest is None or (oldest[1][0] > now and len(windows) < self._most):
                return
            del windows[oldest[0]]

    def _allowance(self, policy: str, quota: Quota, left_ms: int, used: int) -> Allowance:
        remaining = max(0, quota.count - used)
        seconds = max(1, -(-left_ms // 1000))
        return Allowance(policy, quota, remaining, seconds, granted=used <= quota.count)
