"""Launches that share a call, and what happens when the call fails."""

import asyncio
from collections.abc import Sequence

import pytest

from bridge.contract.responses import LaunchResponse
from bridge.engine_client.client import LaunchRequest
from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from bridge.intake.process.worklist import Launcher


class Service:
    """A report engine. `fail` is the error of batches, `bad` the accession that it refuses."""

    def __init__(self, fail: EngineFailure | None = None, bad: str = "") -> None:
        self.fail, self.bad = fail, bad
        self.batches: list[int] = []
        self.single_launches: list[str] = []
        self.groups: set[str] = set()

    async def launch(self, launch: LaunchRequest) -> LaunchResponse:
        self.single_launches.append(launch.clinical_info["Accession"])
        self.groups.add(launch.link_group)
        result = self._result(launch)
        if isinstance(result, EngineFailure):
            raise result
        return result

    async def launch_batch(
        self, launches: Sequence[LaunchRequest]
    ) -> list[LaunchResponse | EngineFailure]:
        self.batches.append(len(launches))
        if self.fail is not None:
            raise self.fail
        return [self._result(launch) for launch in launches]

    def token_of(self, site: str) -> str:
        return site

    def _result(self, launch: LaunchRequest) -> LaunchResponse | EngineFailure:
        accession = launch.clinical_info["Accession"]
        if accession == self.bad:
            return EngineFailure("launch", FailureKind.PERMANENT, "refused", 400)
        return LaunchResponse.model_validate({"status": "PreLaunch", "reportId": f"r{accession}"})


async def launch_all(
    service: Service, number: int, most: int = 100, sites: int = 1
) -> list[LaunchResponse | BaseException]:
    launcher = Launcher(service, batch_size=most)  # type: ignore[arg-type]  # answers as scripted
    launches = [
        LaunchRequest({"SiteID": f"S{item % sites}", "Accession": str(item)})
        for item in range(number)
    ]
    return await asyncio.gather(*map(launcher.launch, launches), return_exceptions=True)


def reports(results: Sequence[LaunchResponse | BaseException]) -> list[str]:
    return [
        str(result.report_id) if isinstance(result, LaunchResponse) else type(result).__name__
        for result in results
    ]


async def test_concurrent_launches_share_a_call() -> None:
    service = Service()
    assert reports(await launch_all(service, 5)) == ["r0", "r1", "r2", "r3", "r4"]
    assert (service.batches, service.single_launches) == ([5], [])


async def test_batches_have_a_limit_and_one_token() -> None:
    """Seven launches at two sites, three per call: no call mixes tokens."""
    service = Service()
    assert len(set(reports(await launch_all(service, 7, most=3, sites=2)))) == 7
    assert (service.batches, service.single_launches) == ([3, 3], ["6"])


async def test_one_refusal_in_a_batch() -> None:
    """A problem in the response of the batch reaches only its own caller."""
    assert reports(await launch_all(Service(bad="1"), 3)) == ["r0", "EngineFailure", "r2"]


@pytest.mark.parametrize("status", [404, 405])
async def test_no_such_endpoint(status: int) -> None:
    """Without the batch endpoint the bridge launches singly, and does not call it again."""
    service = Service(EngineFailure("batch", FailureKind.PERMANENT, f"http_{status}", status))
    assert reports(await launch_all(service, 3)) == ["r0", "r1", "r2"]
    assert service.batches == [3]


@pytest.mark.parametrize("status", [400, 413, 500])
async def test_a_batch_that_one_member_may_have_broken(status: int) -> None:
    """The bridge sends the members singly, so that only the faulty one fails."""
    failure = EngineFailure("batch", FailureKind.AMBIGUOUS, f"http_{status}", status)
    service = Service(failure, bad="2")
    assert reports(await launch_all(service, 3)) == ["r0", "r1", "EngineFailure"]


@pytest.mark.parametrize("status", [None, 401, 429, 503])
async def test_an_unreachable_service(status: int | None) -> None:
    """No member is the cause: all fail at once, and none is sent singly."""
    service = Service(EngineFailure("batch", FailureKind.TRANSIENT, "away", status))
    assert reports(await launch_all(service, 3)) == ["EngineFailure"] * 3
    assert service.single_launches == []


async def test_link_groups_are_for_batches() -> None:
    """Single launches have no link group, because a service without batches may not know it."""
    service = Service(EngineFailure("batch", FailureKind.PERMANENT, "http_404", 404))
    launcher = Launcher(service)  # type: ignore[arg-type]  # answers as scripted
    launches = [
        LaunchRequest({"SiteID": "S", "Accession": item}, link_group="1.0") for item in "AB"
    ]
    await asyncio.gather(*map(launcher.launch, launches))
    assert service.single_launches == ["A", "B"]
    assert service.groups == {""}
