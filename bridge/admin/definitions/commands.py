"""Use cases of `bridge mapping`: check, try, compare, activate and roll back definitions."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bridge import active_settings
from bridge.admin.audit_events import audited
from bridge.admin.checks.checks import is_missing
from bridge.admin.checks.connection_checks import used_definitions
from bridge.admin.definitions import activation, drafts, examples
from bridge.admin.definitions.activation import ActivationResult, Author
from bridge.admin.definitions.result_previews import ResultPreviews
from bridge.admin.definitions.trials import (
    MessageSample,
    NotAnOrderReader,
    OrderReader,
    compare_samples,
    file_order_reader,
    file_samples,
    make_comparison,
    order_reader,
    stored_samples,
)
from bridge.audit.events import operator
from bridge.engine_client.client import EngineClient
from bridge.errors import BridgeError
from bridge.intake.validation.profiles import load_profile
from bridge.intake.validation.structure import validate
from bridge.intake.validation.validator import ValidationFinding
from bridge.report_engine import engine_http, engine_tokens
from bridge.store.database import Database
from bridge.store.databases import bridge_database
from bridge.store.records import mapping_versions
from config import Settings
from config import load as load_settings
from config.listeners import ListenerSettings
from config.settings import FILE_NAME
from mappings import compiler
from mappings.authoring.inference import infer_definition
from mappings.authoring.trial import (
    FieldDifference,
    Trial,
    render_samples,
    sample_contexts,
    try_message,
)
from mappings.compiler import Compiled
from mappings.inbound.definition import InboundMapping
from mappings.language.diagnostics import (
    Issue,
    IssueSeverity,
    MappingErrors,
    RuleFailed,
    Sources,
)
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.worklist_item import WorklistItem, WorklistMapping


class UnusableRequest(BridgeError):
    """A command names a listener that does not exist, or no HL7 message."""


def check_files(home: Path, name: str | None) -> tuple[list[Issue], bool]:
    """
    Return the issues of one or all definitions of HOME, and whether one is an error.

    They are those of the files, and those that were made in the console; also of their examples.
    """
    in_console = _made_in_console(home)
    issues = [] if name in in_console else list(compiler.check(home / "mappings", name))
    for made, sources in in_console.items():
        if name in (None, made):
            issues += drafts.check(sources, made).issues
    issues += _example_issues(home, name)
    return issues, any(issue.severity is IssueSeverity.ERROR for issue in issues)


def _example_issues(home: Path, chosen: str | None) -> list[Issue]:
    """Return warnings about examples with another result; none without settings or database."""
    if not (home / FILE_NAME).exists():
        return []
    settings = load_settings(home)
    if is_missing(settings.database_url()):
        return []
    issues = list[Issue]()
    with bridge_database(home) as database:
        for name in examples.names(database):
            if chosen in (None, name):
                sources = drafts.sources_of(settings, database, name, drafts.FILES)
                issues += examples.issues_of(database, drafts.check(sources, name).compiled)
    return issues


def _made_in_console(home: Path) -> Mapping[str, Sources]:
    """Return the sources of definitions without a file; none without settings or database."""
    if not (home / FILE_NAME).exists():
        return {}
    settings = load_settings(home)
    if is_missing(settings.database_url()):
        return {}
    with bridge_database(home) as database:
        names = drafts.console_definitions(settings, database)
        return {name: drafts.sources_of(settings, database, name, drafts.FILES) for name in names}


def list_examples(home: Path, name: str, version: str) -> list[dict[str, Any]]:
    """List the examples of a definition, each with what differs with a version."""
    settings = load_settings(home)
    with bridge_database(home) as database:
        sources = drafts.sources_of(settings, database, name, version)
        return examples.list_json(database, name, drafts.check(sources, name).compiled)


def accept_examples(home: Path, name: str, version: str, ids: Sequence[int]) -> int:
    """Make the results of a version the expected ones; audited. Raises NotAnOrderReader."""
    settings = load_settings(home)
    with bridge_database(home) as database:
        sources = drafts.sources_of(settings, database, name, version)
        compiled = compiler.compile_sources(sources, name)
        if not isinstance(compiled, InboundMapping):
            raise NotAnOrderReader(name)
        with audited(home, database, "accept examples", ("mapping", name)):
            return examples.accept(database, compiled, ids)


def remove_examples(home: Path, name: str, ids: Sequence[int]) -> int:
    """Remove examples; audited. Raises NoSuchItem."""
    with (
        bridge_database(home) as database,
        audited(home, database, "remove example", ("mapping", name)),
    ):
        return examples.remove(database, name, ids)


def propose(files: Sequence[Path]) -> str:
    """Infer a definition from the messages of a sender. Raises UnusableRequest without any."""
    payloads = [sample.payload for sample in file_samples(files, "")]
    if not payloads:
        raise UnusableRequest("there is no HL7 message in these files")
    return infer_definition(payloads).text


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """
    A version of a definition to try, and the messages to try it on.

    The messages are those of `files`, or the `last` newest stored ones. `site` is the SiteID of
    messages without one. `orders` names the definition that reads the orders of an outbound
    definition, `listener` the listener whose settings and definitions apply to `files`.
    `destination` is the destination whose last releases an outbound definition composes; '' for all
    that use it. `validate` or a `profile` adds the validation of each message.
    """

    home: Path
    name: str
    version: str
    files: tuple[Path, ...]
    last: int
    site: str
    orders: str
    listener: str = ""
    destination: str = ""
    validate: bool = False
    profile: Path | None = None


@dataclass(frozen=True, slots=True)
class InboundTrial:
    """The result of an inbound definition for a message; `findings` is None without validation."""

    label: str
    trial: Trial
    findings: Sequence[ValidationFinding] | None

    @property
    def passed(self) -> bool:
        """Whether the message is accepted and valid."""
        return self.trial.accepted and not any(finding.is_error for finding in self.findings or ())


@dataclass(frozen=True, slots=True)
class OutboundTrial:
    """
    The messages that an outbound definition writes, or why it writes none.

    They are those of a release that a destination got. If there is none, and for files, they are
    specimens: the orders of a message with a sample report.
    """

    label: str
    messages: tuple[str, ...]
    error: str = ""

    @property
    def passed(self) -> bool:
        """Whether a message is written."""
        return bool(self.messages)


@dataclass(frozen=True, slots=True)
class WorklistTrial:
    """The worklist items of the orders of a message, or why there are none."""

    label: str
    items: tuple[WorklistItem, ...]
    error: str = ""

    @property
    def passed(self) -> bool:
        """Whether there are items, and all values fit."""
        return bool(self.items) and not any(item.problems for item in self.items)


def try_definition(
    request: TrialRequest,
) -> Sequence[InboundTrial] | Sequence[OutboundTrial] | Sequence[WorklistTrial]:
    """Apply a definition to each message. Raises UnusableRequest, MappingErrors, BridgeError."""
    if releases := _release_trials(request):
        return releases
    mapping, samples, reader = _prepare(request)
    if not samples:
        raise UnusableRequest("there is no HL7 message to try")
    if isinstance(mapping, OutboundMapping):
        return [_outbound_trial(mapping, reader, sample) for sample in samples]
    if isinstance(mapping, WorklistMapping):
        return [_worklist_trial(mapping, reader, sample) for sample in samples]
    validator = None
    if request.validate or request.profile is not None:
        profile = None if request.profile is None else load_profile(request.profile)
        validator = partial(validate, profile=profile)
    trials = []
    for sample in samples:
        trial = try_message(mapping, sample.payload, sample.defaults, sample.charset)
        findings = None if validator is None else list(validator(sample.payload))
        trials.append(InboundTrial(sample.label, trial, findings))
    return trials


def _release_trials(request: TrialRequest) -> list[OutboundTrial]:
    """Compose the last releases of the destinations that use the definition; empty without any."""
    if request.files:
        return []
    settings = load_settings(request.home)
    with bridge_database(request.home) as database:
        try:
            sources = drafts.sources_of(settings, database, request.name, request.version)
            mapping = compiler.compile_sources(sources, request.name)
        except (BridgeError, MappingErrors):
            return []  # `_prepare` raises it again, within the audit event
        if not isinstance(mapping, OutboundMapping):
            return []
        with _read_audited(request, database, "read"):
            client = EngineClient(engine_http(settings, None), engine_tokens(settings))
            previews = ResultPreviews(settings, database, client)
            composed = asyncio.run(
                previews.compose(request.name, sources, request.destination, request.last)
            )
    return [
        OutboundTrial(release.label, (release.text,) if release.payload else (), release.reason)
        for release in composed
    ]


def _outbound_trial(
    mapping: OutboundMapping, reader: OrderReader, sample: MessageSample
) -> OutboundTrial:
    try:
        orders = reader(sample)
        if orders is None:
            return OutboundTrial(sample.label, (), "no definition reads its orders")
        written = render_samples(mapping, orders, sample.payload, sample.defaults, sample.charset)
    except RuleFailed as failure:
        return OutboundTrial(sample.label, (), str(failure))
    texts = tuple(message.decode().replace("\r", "\n") for message in written)
    return OutboundTrial(f"{sample.label} (specimen)", texts)


def _worklist_trial(
    mapping: WorklistMapping, reader: OrderReader, sample: MessageSample
) -> WorklistTrial:
    try:
        orders = reader(sample)
        if orders is None:
            return WorklistTrial(sample.label, (), "no definition reads its orders")
        source = (sample.payload, sample.defaults, sample.charset)
        contexts = sample_contexts(mapping, orders, *source)
        items = tuple(item for context in contexts for item in mapping.items(context))
    except RuleFailed as failure:
        return WorklistTrial(sample.label, (), str(failure))
    return WorklistTrial(sample.label, items)


def _prepare(request: TrialRequest) -> tuple[Compiled, list[MessageSample], OrderReader]:
    """
    Compile the definition, and read the messages and the definition of their orders.

    The files of a data directory can be tried on message files without a database or settings.
    """
    has_file = (request.home / "mappings" / f"{request.name}.yaml").exists()
    if has_file and request.version == drafts.FILES and request.files and not request.listener:
        mapping = compiler.load(request.home / "mappings", request.name)
        samples = file_samples(request.files, request.site)
        return mapping, samples, file_order_reader(request.home, request.orders)
    settings = load_settings(request.home)
    with bridge_database(request.home) as database, _read_audited(request, database, "read"):
        mapping = drafts.compile_version(settings, database, request.name, request.version)
        listener = _listener(request.listener, settings, database)
        samples = (
            file_samples(request.files, request.site, listener)
            if request.files
            else stored_samples(settings, database, request.name, request.last)
        )
        reader = order_reader(settings, database, samples, request.orders)
    return mapping, samples, reader


def _read_audited(
    request: TrialRequest, database: Database, action: str
) -> AbstractContextManager[None]:
    """Record that stored messages are read. Files that the command names leave no event."""
    if request.files:
        return nullcontext()
    target = ("messages", f"last {request.last} of mapping {request.name}")
    return audited(request.home, database, action, target)


def _listener(name: str, settings: Settings, database: Database) -> ListenerSettings | None:
    """Return a listener with its active settings; None without a name."""
    if not name:
        return None
    known = {
        listener.name: listener for listener in active_settings.current(settings, database).listener
    }
    if name not in known:
        raise UnusableRequest(f"--listener must be one of {', '.join(known)}")
    return known[name]


@dataclass(frozen=True, slots=True)
class VersionComparison:
    """The messages, of `count`, that two versions of a definition map differently."""

    before: str
    after: str
    count: int
    differing: Sequence[tuple[MessageSample, Sequence[FieldDifference]]]


def compare_versions(request: TrialRequest, before: str) -> VersionComparison:
    """Compare the version `before` with the version of the request, message by message."""
    settings = load_settings(request.home)
    with bridge_database(request.home) as database, _read_audited(request, database, "compare"):
        old = drafts.compile_version(settings, database, request.name, before)
        new = drafts.compile_version(settings, database, request.name, request.version)
        if request.files:
            samples = file_samples(request.files, request.site)
        else:
            samples = stored_samples(settings, database, request.name, request.last)
        compare = make_comparison(
            old, new, order_reader(settings, database, samples, request.orders)
        )
    differing = compare_samples(samples, compare).differing
    return VersionComparison(old.version, new.version, len(samples), differing)


def author(name: str | None, reason: str) -> Author:
    """Return the author of an activation: `name`, or the user of the command."""
    return Author(name or operator(), time.time_ns() // 1_000_000, reason)


def activate(
    home: Path, names: Sequence[str], by: Author, *, version: str = "", draft: bool = False
) -> list[ActivationResult]:
    """
    Activate the files of these definitions, a kept version, or the draft; audited.

    Without names, all definitions that the settings use. The files are activated all or none.
    """
    settings = load_settings(home)
    target = ("mapping", ", ".join(names or ["all"]))
    with (
        bridge_database(home) as database,
        audited(home, database, "activate", target, reason=by.reason),
    ):
        names = names or used_definitions(active_settings.current(settings, database))
        if version:
            return [activation.rollback(settings, database, name, by, version) for name in names]
        if draft:
            return [drafts.activate_draft(settings, database, name, by) for name in names]
        return activation.activate_files(settings, database, names, by)


def roll_back(home: Path, name: str, by: Author, version: str) -> ActivationResult:
    """Activate an older version, by default the previously active one; audited."""
    with bridge_database(home) as database, audited(home, database, "roll back", ("mapping", name)):
        return activation.rollback(load_settings(home), database, name, by, version)


def assign_definitions(
    home: Path, listener: str, names: Sequence[str], by: Author
) -> Sequence[str]:
    """
    Set the definitions of a listener; without names those of bridge.toml. Audited.

    Return the definitions that the listener then uses.
    """
    settings = load_settings(home)
    with (
        bridge_database(home) as database,
        audited(home, database, "read with", ("listener", listener), reason=by.reason),
    ):
        record = active_settings.make_list_record(listener, names)
        activation.activate(settings, database, [], by, records=[record])
        current = active_settings.current(settings, database).listener
    return next(entry.mappings for entry in current if entry.name == listener)


def history(home: Path, name: str) -> list[dict[str, Any]]:
    """List the activations of a definition, newest first; `in_force` marks the active one."""
    with bridge_database(home) as database, database.read() as connection:
        found = mapping_versions.history(connection, name)
    return [{**asdict(entry), "in_force": at == 0} for at, entry in enumerate(found)]
