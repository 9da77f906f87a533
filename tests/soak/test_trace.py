"""The trace check names each step that the models do not allow."""

import pytest

from tests.soak.trace import Step, problems


def step(number: int, before: str, after: str, actor: str = "a", lanes: str = "7") -> Step:
    return Step("message", number, before, after, actor, tuple(map(int, lanes)), float(number))


def send(*moves: tuple[str, str, float]) -> list[Step]:
    return [Step("delivery", 1, before, after, "a", (7,), at) for before, after, at in moves]


NEW, CLAIM, DONE = step(1, "", "queued"), step(1, "queued", "claimed"), step(1, "claimed", "done")
SENT = send(("", "queued", 1.0), ("queued", "claimed", 2.0), ("claimed", "done", 3.0))


@pytest.mark.parametrize(
    "trace",
    [
        [NEW, CLAIM, DONE],
        [NEW, CLAIM, step(1, "claimed", "queued", "b"), step(1, "queued", "claimed", "b"),
         step(1, "claimed", "parked", "b")],
        [NEW, step(2, "", "queued", lanes="78"), CLAIM, DONE, step(2, "queued", "claimed")],
        [step(1, "", "refused"), step(2, "", "queued", lanes="")],
    ],
    ids=["applied", "failover", "a merge waits", "refused"],
)  # fmt: skip
def test_paths_of_the_model(trace: list[Step]) -> None:
    """The check accepts steps that are actions whose guards hold."""
    assert problems(trace) == []


@pytest.mark.parametrize(
    ("trace", "problem"),
    [
        ([NEW, step(1, "queued", "done")], "message 1 queued -> done is no action"),
        ([NEW, CLAIM, DONE, step(1, "done", "queued")], "message 1 done -> queued is no action"),
        ([NEW, CLAIM, step(1, "queued", "claimed")], "message 1 is claimed and leaves queued"),
        ([NEW, CLAIM, step(1, "claimed", "done", "b")],
         "message 1 is settled by b and claimed by a"),
        ([NEW, step(2, "", "queued"), step(2, "queued", "claimed")],
         "message 2 is claimed before an earlier one of its lane has ended"),
        ([NEW, CLAIM, step(2, "", "queued"), step(2, "queued", "claimed")],
         "message 2 is claimed beside another claim of its lane"),
    ],
)  # fmt: skip
def test_steps_that_are_no_actions(trace: list[Step], problem: str) -> None:
    assert problems(trace) == [problem]


@pytest.mark.parametrize(
    ("at", "found"),
    [
        (2.5, []),
        (1.0, ["delivery 1 was sent without a claim"]),
        (3.5, ["delivery 1 was sent after its acceptance was recorded"]),
    ],
)
def test_sends(at: float, found: list[str]) -> None:
    """A delivery is sent while it is claimed; its acceptance is final."""
    assert problems(SENT, [(at, 1)]) == found
