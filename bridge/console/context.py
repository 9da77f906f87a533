"""The context of the console's routes: the use cases of `bridge.admin` that they call."""

from collections.abc import Callable
from typing import Final

from bridge.admin.access.access_administration import AccessAdministration
from bridge.admin.audit_events import AuditRelay
from bridge.admin.connection_samples import ConnectionSamples
from bridge.admin.connection_settings import Connections
from bridge.admin.definitions.editor import DefinitionEditor
from bridge.admin.definitions.rule_forms import RuleForms
from bridge.admin.definitions.trials import DefinitionTrials
from bridge.admin.messages.message_replay import MessageSubjects
from bridge.admin.overview.first_steps import FirstSteps
from bridge.admin.packages.activation import InterfacePackages
from bridge.admin.report_engine import ReportEngine
from bridge.console.live import LiveHub
from bridge.console.readings import Readings
from bridge.delivery.preparation import ReportTexts
from bridge.engine_client.client import EngineClient
from bridge.executors import ConcurrencyLimit
from bridge.network_source import Proxies
from bridge.store.database import Database
from config import Settings

_MAX_COMPILING: Final = 2
_MAX_WAITING: Final = 16


class ConsoleContext:
    """
    The use cases that the routes call. They block, except coroutines, and return JSON.

    `settings` are those of bridge.toml; the active ones are in the database. `clock` is in ms.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        client: EngineClient,
        subjects_of: MessageSubjects,
        clock: Callable[[], int],
    ) -> None:
        self.settings = settings
        self.database = database
        self.subjects_of = subjects_of
        self.clock = clock
        self.engine = ReportEngine(client)
        self.definitions = DefinitionEditor(settings, database, clock)
        self.rule_forms = RuleForms(settings, database)
        self.trials = DefinitionTrials(settings, database, client)
        self.texts = ReportTexts(client)
        self.packages = InterfacePackages(settings, database, clock)
        self.connections = Connections(settings, database, clock)
        self.samples = ConnectionSamples(settings, database, clock)
        self.first_steps = FirstSteps(settings, database, self.engine, subjects_of, clock)
        self.audit = AuditRelay(settings, database)
        provider = settings.sign_in.oidc is not None
        self.access = AccessAdministration(database, self.engine, clock, provider=provider)
        self.second_factor = not provider and settings.sign_in.second_factor == "required"
        """Whether a session needs a second factor to open the console."""
        self.proxies = Proxies(settings.http.trusted_proxies)
        """The trusted proxies in front of the console."""
        self.live = LiveHub(settings, database, clock)
        """The hints for open pages."""
        self.readings = Readings()
        """Which parts of an item were read together."""
        self.gate = ConcurrencyLimit("definitions", _MAX_COMPILING, _MAX_WAITING)
        """Limits how many requests compile definitions at a time."""
