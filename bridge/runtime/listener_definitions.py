"""The definitions and settings of listeners that are active, for receiving and for applying."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from threading import Lock
from typing import NamedTuple

from typing_extensions import override

from bridge import active_settings
from bridge.active_settings import active_sources, version_finder
from bridge.intake.receive.listener_policy import ListenerPolicy, VersionFinder, make_listeners
from bridge.monitoring.channels import read_channels
from bridge.runtime.channel_control import latest_activation
from bridge.runtime.context import Process
from config.listeners import ListenerSettings
from config.sections import ChannelKind


class ActiveListeners(NamedTuple):
    """
    The definitions of all listeners, the settings of enabled ones, and the names of paused ones.

    The definitions include at least the activation with the number `activation`.
    """

    activation: int
    policies: Mapping[str, ListenerPolicy]
    settings: Mapping[str, ListenerSettings]
    paused: Collection[str]


def without_mappings(listener: ListenerSettings) -> ListenerSettings:
    """Return the settings of a listener without mappings: they change while its port is open."""
    return listener.model_copy(update={"mappings": []})


class ListenerDefinitions(Mapping[str, ListenerPolicy]):
    """
    The definitions of listeners, by name.

    Another node may have received a message by a listener that is not loaded here yet. Then the
    definitions are loaded again, on the calling thread. `in` loads nothing: it is True if
    definitions are loaded.
    """

    def __init__(
        self,
        found: Mapping[str, ListenerPolicy],
        load_newer: Callable[[], Mapping[str, ListenerPolicy]],
    ) -> None:
        """`load_newer` returns newer definitions, if there are any."""
        self._found = found
        self._load_newer = load_newer
        self._loading = Lock()  # several threads read messages

    @override
    def __getitem__(self, name: str) -> ListenerPolicy:
        if name not in self._found:
            with self._loading:
                if name not in self._found:
                    self._found = {**self._found, **self._load_newer()}
        return self._found[name]

    @override
    def __contains__(self, name: object) -> bool:
        return name in self._found

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    @override
    def __len__(self) -> int:
        return len(self._found)


class ListenerCompiler:
    """Compiles the active versions of a process. Blocking."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._find_version: VersionFinder = version_finder(process.database)

    def compile(self) -> ActiveListeners:
        database = self._process.database
        activation = latest_activation(database)
        settings = active_settings.current(self._process.settings, database)
        find = active_sources(settings, database)
        known = read_channels(database, ChannelKind.LISTENER)
        policies = make_listeners(settings, find, self._find_version, self._process.tally.note)
        return ActiveListeners(
            activation,
            {
                name: replace(policy, offload=self._process.offload)
                for name, policy in policies.items()
            },
            {
                listener.name: without_mappings(listener)
                for listener in settings.listener
                if listener.enabled
            },
            {name for name, channel in known.items() if channel.paused},
        )

    def definitions(self, found: ActiveListeners) -> ListenerDefinitions:
        """Return the definitions of stored messages, which load newer ones on demand."""
        known = found.activation

        def load_newer() -> Mapping[str, ListenerPolicy]:
            nonlocal known
            if latest_activation(self._process.database) == known:
                return {}
            newer = self.compile()
            known = newer.activation
            return newer.policies

        return ListenerDefinitions(found.policies, load_newer)
