"""What is to become of claimed rows, and what came of writing it down."""

from dataclasses import dataclass

from bridge.queue.states import Event, Failure, State, after


@dataclass(frozen=True, slots=True)
class Settlement:
    """What becomes of a claimed row; times in ms. Only what is queued has a `not_before`."""

    row_id: int
    state: State
    failure: str = ""
    code: str = ""
    detail: str = ""
    not_before: int = 0

    @classmethod
    def of(
        cls,
        row_id: int,
        event: Event,
        failure: Failure | None,
        code: str,
        detail: str,
        due: int,
    ) -> "Settlement":
        """Say what follows when `event` happens to a claimed row; it is `due` if it waits."""
        state = after(State.CLAIMED, event)
        waits = state is State.QUEUED
        return cls(row_id, state, str(failure or ""), code, detail, due if waits else 0)


@dataclass(frozen=True, slots=True)
class Settled:
    """The rows that were still ours to settle, and whether any moved up behind them."""

    held: set[int]
    moved_up: bool
