"""A destination that the reply policy pauses stays paused, also if the pause cannot be stored."""

from sqlalchemy import text
from structlog.testing import capture_logs

from bridge.metrics import Metrics
from bridge.monitoring.channels import read_channels
from bridge.runtime.channel_control import ChannelControl
from bridge.runtime.schedule import Schedule
from bridge.store.database import Database
from config.sections import ChannelKind
from tests.eventually import eventually_async


class _Destination:
    is_paused = True

    def pause(self) -> None:
        """Send nothing until `resume`."""
        self.is_paused = True

    def resume(self) -> None:
        """Send again."""
        self.is_paused = False


def _rename_table(database: Database, old: str, new: str) -> None:
    with database.write() as connection:
        connection.execute(text(f"ALTER TABLE {old} RENAME TO {new}"))


async def test_a_pause_is_stored_when_the_database_accepts_it_again(database: Database) -> None:
    """A check stores it; until then the channel is not resumed."""
    destination, schedule = _Destination(), Schedule(Metrics())
    kind = ChannelKind.DESTINATION
    control = ChannelControl(
        database, kind, {"ris": destination}, Metrics(), lambda: 1000, schedule
    )
    await control.start()
    _rename_table(database, "channel", "channel_away")
    with capture_logs() as log:
        control.pause_by_policy("ris", "AR")
        await eventually_async(lambda: any("not stored" in row["event"] for row in log))
    _rename_table(database, "channel_away", "channel")

    await eventually_async(lambda: "ris" in read_channels(database, kind))
    await eventually_async(lambda: read_channels(database, kind)["ris"].paused)

    assert destination.is_paused
    await control.stop()
