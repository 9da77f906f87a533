"""Batches of launches go to a second engine while there is one, everything else never does."""

import pytest

from bridge.engine_client.beside import Beside
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.reports import BATCH, LAUNCH
from bridge.engine_client.transport import Answer, Caller, Request, no_answer

pytestmark = pytest.mark.anyio


class Service(Caller):
    """Answers with a status, or not at all where that is 0."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.asked: list[str] = []
        self.closed = False

    async def ask(self, request: Request) -> Answer:
        """Answer, and remember it."""
        self.asked.append(request.path)
        if not self.status:
            raise no_answer(request.path)
        return Answer(self.status, {}, b"[]")

    async def aclose(self) -> None:
        """Remember it."""
        self.closed = True


class Second:
    """A second engine that runs, or does not."""

    def __init__(self, caller: Service | None) -> None:
        self.caller: Caller | None = caller
        self.closed = False

    def give_up(self) -> None:
        """Run no more."""
        self.caller = None

    async def aclose(self) -> None:
        """Remember it."""
        self.closed = True


def asked(path: str) -> Request:
    """Make a request."""
    return Request("POST", path, {}, b"[]")


async def test_batches_alone_go_there() -> None:
    """And whoever waits for changes here hears of them."""
    own, other, rung = Service(), Service(), []
    beside = Beside(own, Second(other), lambda: rung.append("!"))
    for path in (BATCH, LAUNCH, "/api/report/status"):
        assert (await beside.ask(asked(path))).status == 200
    assert other.asked == [BATCH]
    assert own.asked == [LAUNCH, "/api/report/status"]
    assert rung == ["!"]


async def test_without_one_all_is_done_here() -> None:
    """Which is so until it is ready, and after it has ended."""
    own = Service()
    await Beside(own, Second(None), lambda: None).ask(asked(BATCH))
    assert own.asked == [BATCH]


async def test_one_that_does_not_answer_is_given_up() -> None:
    """What became of that call nobody knows: it is not tried here while it may be done there."""
    own, other, rung = Service(), Service(0), []
    beside = Beside(own, Second(other), lambda: rung.append("!"))
    with pytest.raises(EngineFailure):
        await beside.ask(asked(BATCH))
    assert own.asked == []
    assert rung == ["!"]
    await beside.ask(asked(BATCH))
    assert (own.asked, other.asked) == ([BATCH], [BATCH])


@pytest.mark.parametrize(("status", "times"), [(503, 1), (500, 1), (409, 2), (429, 2)])
async def test_a_fault_of_its_own_is_a_reason_too(status: int, times: int) -> None:
    """A refusal is not: this one would refuse it as well."""
    own, other = Service(), Service(status)
    beside = Beside(own, Second(other), lambda: None)
    assert (await beside.ask(asked(BATCH))).status == status
    await beside.ask(asked(BATCH))
    assert len(other.asked) == times


async def test_both_are_closed() -> None:
    """The second first: it may still have something in hand."""
    own, second = Service(), Second(Service())
    await Beside(own, second, lambda: None).aclose()
    assert (own.closed, second.closed) == (True, True)
