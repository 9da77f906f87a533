"""
Count requests against quotas, and say in the RateLimit headers what is left.

A fixed window a (key, policy), as draft-ietf-httpapi-ratelimit-headers-11 describes
it. Lives in this process only: several nodes grant each their own share.
"""

from collections.abc import Callable
from dataclasses import dataclass

from bridge.engine.settings import Quota

Clock = Callable[[], int]
"""Milliseconds since the Unix epoch."""

_SWEEP_ABOVE = 10_000


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


class QuotaMeter:
    """Windows of all callers; a window that ended is forgotten."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._windows: dict[tuple[str, str], tuple[int, int]] = {}

    def take(self, policy: str, key: str, quota: Quota, count: int = 1) -> Allowance | None:
        """Count `count` requests; None when the quota is off."""
        if quota.count <= 0:
            return None
        now = self._clock()
        ends, used = self._window(policy, key, quota, now)
        used += count
        self._windows[policy, key] = (ends, used)
        return self._allowance(policy, quota, ends - now, used)

    def peek(self, policy: str, key: str, quota: Quota) -> Allowance | None:
        """Return the same answer as one more `take` would get, without counting."""
        if quota.count <= 0:
            return None
        now = self._clock()
        ends, used = self._window(policy, key, quota, now)
        return self._allowance(policy, quota, ends - now, used + 1)

    def _window(self, policy: str, key: str, quota: Quota, now: int) -> tuple[int, int]:
        if len(self._windows) > _SWEEP_ABOVE:
            self._windows = {k: v for k, v in self._windows.items() if v[0] > now}
        ends, used = self._windows.get((policy, key), (0, 0))
        return (ends, used) if ends > now else (now + quota.seconds * 1000, 0)

    def _allowance(self, policy: str, quota: Quota, left_ms: int, used: int) -> Allowance:
        remaining = max(0, quota.count - used)
        seconds = max(1, -(-left_ms // 1000))
        return Allowance(policy, quota, remaining, seconds, granted=used <= quota.count)
