"""The active DICOM peers of a process, which follow what the console saves on any node."""

from collections.abc import Callable, Sequence

from bridge import active_settings
from bridge.runtime.channel_control import ActivationFollower, LatestActivation, latest_activation
from bridge.runtime.schedule import Job, Schedule, ServicePart
from bridge.store.database import Database
from config import Settings
from config.dicom import DicomPeer


class ActivePeers:
    """The peers at the start, and those after each activation."""

    def __init__(self, settings: Settings, database: Database) -> None:
        """Read the peers. Blocking; raises StoreError, InvalidConnection."""
        self._settings, self._database = settings, database
        self._activation = latest_activation(database)
        self.first: Sequence[DicomPeer] = self._read()

    def settings(self) -> Settings:
        """Return the settings with the peers at the start."""
        dicom = self._settings.dicom.model_copy(update={"peer": list(self.first)})
        return self._settings.with_saved({"dicom": dicom})

    def follow(
        self,
        latest: LatestActivation,
        schedule: Schedule,
        use: Callable[[Sequence[DicomPeer]], object],
    ) -> ServicePart:
        """Return the job that calls `use` on the event loop after each activation."""

        async def use_peers(peers: Sequence[DicomPeer]) -> None:
            use(peers)

        follower = ActivationFollower(
            latest, self._activation, self._read, use_peers, lambda: False
        )
        return follower.part(schedule, Job.PEER_ACTIVATIONS)

    def _read(self) -> Sequence[DicomPeer]:
        return active_settings.current(self._settings, self._database).dicom.peer
