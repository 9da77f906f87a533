"""
Launch, batches of launches, and sessions: the endpoints that make links.

Part of `EngineClient`; see there.
"""

from collections.abc import Mapping, Sequence

from bridge.engine_client.classification import classify, code_of
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import Launch, Launched, Session
from bridge.engine_client.replies import Unreadable, launched, session
from bridge.engine_client.requests import given, launch_body
from bridge.engine_client.transport import Transport
from bridge.queue.states import Failure

LAUNCH = "/api/report/launch/clinical"
BATCH = "/api/report/launch/clinical/batch"


class Launching:
    """Interface document, POST /api/report/launch/clinical and /api/report/init."""

    def __init__(self, transport: Transport) -> None:
        """Share one transport."""
        self._transport = transport

    async def launch(self, launch: Launch) -> Launched:
        """Create or retrieve a report and its link."""
        return await self._transport.call(
            "POST", LAUNCH, launch.site, launched, body=launch_body(launch)
        )

    async def launch_batch(self, launches: Sequence[Launch]) -> list[Launched | EngineFailure]:
        """
        Launch several reports of one site's token in one call; one result each, in order.

        Raises EngineFailure when the whole call failed (`is_unsupported`: no such endpoint).
        """
        bodies = [launch_body(each) for each in launches]
        results = await self._transport.call(
            "POST", BATCH, launches[0].site, batch_results, body=bodies
        )
        if len(results) != len(launches):
            raise EngineFailure(BATCH, Failure.AMBIGUOUS, "unreadable")
        return results

    async def create_session(
        self,
        site: str,
        user_name: str,
        user_email: str,
        *,
        location: str | None = None,
        app_language: str | None = None,
        speech_language: str | None = None,
        auth: str | None = None,
    ) -> Session:
        """Make a short-lived link that warms up an embedded session; creates no report."""
        clinical_info = given(
            SiteID=site,
            SiteLocation=location,
            AppLanguage=app_language,
            SpeechLanguage=speech_language,
        )
        user = given(UserName=user_name, UserEmail=user_email, Auth=auth)
        body = {"clinicalInfo": clinical_info, "userInfo": user}
        return await self._transport.call("POST", "/api/report/init", site, session, body=body)

    async def open_link(self, link: str) -> str:
        """Follow a report link or session link as a browser would; gives the page's HTML."""
        response = await self._transport.send("GET", link, "")
        return response.text


def batch_results(value: object) -> list[Launched | EngineFailure]:
    """Read the answer to a batch: launch answers and problem bodies, mixed."""
    results = value.get("results") if isinstance(value, Mapping) else value
    if not isinstance(results, list):
        raise Unreadable("results")
    return [_batch_result(each) for each in results]


def _batch_result(value: object) -> Launched | EngineFailure:
    status = value.get("status") if isinstance(value, Mapping) else None
    if isinstance(status, int):
        code = code_of(value, status)
        return EngineFailure(BATCH, classify(status, code), code, status)
    return launched(value)
