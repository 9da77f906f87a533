"""
Quotas of requests, with the RateLimit headers.

Each (policy, key) has a fixed window (draft-ietf-httpapi-ratelimit-headers-11). Windows are kept in
memory: each node of a cluster grants the whole quota. The number of windows is bounded, and a
request costs the same at any number.
"""

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

FAILURE_SECONDS: Final = 15 * 60
"""The window of failed authentications."""
Clock = Callable[[], int]
"""Returns milliseconds of a monotonic clock."""

MAX_WINDOWS = 150_000
"""Windows of one policy; above this number the oldest is dropped."""

_DROPPED_PER_NEW = 2
"""Expired windows dropped for each new one: more than are created."""


@dataclass(frozen=True, slots=True)
class Quota:
    """At most `count` requests in a window of `seconds`; a count of 0 switches the limit off."""

    count: int
    seconds: int = 60


@dataclass(frozen=True, slots=True)
class Allowance:
    """The result of a quota check: `remaining` requests for the next `resets_in` seconds."""

    policy: str
    quota: Quota
    remaining: int
    resets_in: int
    granted: bool

    def headers(self) -> dict[str, str]:
        """Return RateLimit-Policy and RateLimit, and Retry-After if refused."""
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
    """Counts requests in one window for each policy and key."""

    def __init__(self, clock: Clock = monotonic_ms, max_windows: int = MAX_WINDOWS) -> None:
        self._clock = clock
        self._max_windows = max_windows
        self._windows: dict[str, OrderedDict[str, tuple[int, int]]] = defaultdict(OrderedDict)

    def take(self, policy: str, key: str, quota: Quota, count: int = 1) -> Allowance | None:
        """Count requests; return None if the quota is disabled."""
        if quota.count <= 0:
            return None
        now, windows = self._clock(), self._windows[policy]
        ends, used = self._window(policy, key, quota, now)
        used += count
        if used == count:  # a new window, or one that had expired
            windows.pop(key, None)
            self._drop_expired(windows, now)
        windows[key] = (ends, used)
        return self._allowance(policy, quota, ends - now, used)

    def peek(self, policy: str, key: str, quota: Quota) -> Allowance | None:
        """Return what the next `take` would return, without counting."""
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

    def _drop_expired(self, windows: OrderedDict[str, tuple[int, int]], now: int) -> None:
        """Drop a few expired windows; drop the oldest window if there are too many."""
        for _ in range(_DROPPED_PER_NEW):
            oldest = next(iter(windows.items()), None)
            if oldest is None or (oldest[1][0] > now and len(windows) < self._max_windows):
                return
            del windows[oldest[0]]

    def _allowance(self, policy: str, quota: Quota, left_ms: int, used: int) -> Allowance:
        remaining = max(0, quota.count - used)
        seconds = max(1, -(-left_ms // 1000))
        return Allowance(policy, quota, remaining, seconds, granted=used <= quota.count)
