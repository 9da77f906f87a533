"""
Listeners and destinations set up in the console: `bridge.console.connections.Connections`.

What comes into force goes through `bridge.wiring.activating`, checked as a start would check it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from typing_extensions import override

from bridge.console.connections import Change, Connections, Plan
from bridge.console.errors import Impossible, Mistaken, Unknown
from bridge.errors import BridgeError
from bridge.executors import Threads
from bridge.operations.certificates import expiries
from bridge.operations.channels import Kind
from bridge.operations.probing import try_port
from bridge.store import mapping_versions as kept
from bridge.store.database import Database
from bridge.store.mapping_versions import Origin
from bridge.wiring import connections, present, probing, verifying
from bridge.wiring.activating import Activated, Who, activate, before
from bridge.wiring.authoring import told
from bridge.wiring.authoring.overview import kinds
from bridge.wiring.authoring.refusing import refusals
from bridge.wiring.connections import MODELS, Mistake
from bridge.wiring.shelf import in_force
from bridge.wiring.watching import certificate_files
from config import Settings
from config.addresses import FolderAddress
from config.forms import fields, written
from config.listeners import Listener
from mappings.errors import MappingErrors

_FIELDS: Mapping[type[BridgeError], str] = {
    verifying.UsedTwice: "bind",
    verifying.NeedsPostgreSQL: "share_port",
    verifying.NoSiteAnywhere: "site",
}


class SetUp(Connections):
    """See `bridge.console.connections.Connections`."""

    def __init__(self, settings: Settings, database: Database, clock: Callable[[], int]) -> None:
        """`clock` is in milliseconds."""
        self._settings = settings
        self._database = database
        self._clock = clock

    @override
    def form(self) -> Mapping[str, Any]:
        return {
            **{kind.value: list(fields(model)) for kind, model in MODELS.items()},
            "definitions": kinds(self._settings, self._database),
        }

    @override
    def connection(self, kind: str, name: str) -> Mapping[str, Any]:
        record = connections.record(Kind(kind), name)
        with self._database.read() as connection:
            past = kept.history(connection, record)
        chosen = next(
            (e for e in connections.every(self._current(), Kind(kind)) if e.name == name), None
        )
        if chosen is None and not past:
            raise Unknown(f"there is no such {kind}")
        return {
            "name": name,
            "table": None if chosen is None else written(chosen),
            "in_force": told.activation(past[0]) if past else None,
            "in_file": any(
                each.name == name for each in connections.every(self._settings, Kind(kind))
            ),
            "history": [told.activation(each) for each in past],
        }

    @override
    def check(self, plan: Plan) -> Mapping[str, Any]:
        kind, name = Kind(plan.kind), str(plan.table.get("name", ""))
        wrong = connections.mistakes(kind, plan.table)
        current = self._current()
        if plan.new and any(each.name == name for each in connections.every(current, kind)):
            wrong.append(Mistake("name", f"there is a {kind} of this name"))
        if wrong:
            return {"mistakes": [each._asdict() for each in wrong], "warnings": []}
        record = connections.version(kind, name, plan.table)
        planned = present.current(self._settings, self._database, [record])
        wrong = list(self._unfit(planned, kind, name))
        warnings = [] if wrong else list(self._worth_a_look(planned, kind, name))
        return {"mistakes": [each._asdict() for each in wrong], "warnings": warnings}

    @override
    async def try_out(self, plan: Plan) -> Sequence[Mapping[str, Any]]:
        kind = Kind(plan.kind)
        self._refuse(connections.mistakes(kind, plan.table))
        chosen = connections.made(kind, "", plan.table)
        if isinstance(chosen, Listener) and not isinstance(chosen.bind, FolderAddress):
            current = await Threads.CHECKS.run(self._current)
            if all(each.bind != chosen.bind or not each.enabled for each in current.listener):
                return [asdict(try_port(chosen.bind.host, chosen.bind.port))]
        return [asdict(step) for step in await probing.steps(self._settings, chosen)]

    @override
    def save(self, change: Change) -> Mapping[str, Any]:
        kind = Kind(change.kind)
        if change.table is None:
            self._leave(kind, change.name)
        else:
            plan = Plan(change.kind, {**change.table, "name": change.name}, change.new)
            found = self.check(plan)["mistakes"]
            self._refuse([Mistake(**each) for each in found])
        record = connections.version(kind, change.name, change.table)
        return self._activated(change, record, Origin.ACTIVATE)

    @override
    def rollback(self, change: Change) -> Mapping[str, Any]:
        name = connections.record(Kind(change.kind), change.name)
        with refusals(), self._database.read() as connection:
            wanted = before(connection, name)
        return self._activated(change, wanted, Origin.ROLLBACK)

    def _activated(self, change: Change, record: kept.Version, origin: Origin) -> Mapping[str, Any]:
        who = Who(change.actor, self._clock(), change.reason)
        begun_on = {record.name: change.begun_on}
        with refusals():
            done: Sequence[Activated] = activate(
                self._settings, self._database, [], who, origin, begun_on, [record]
            )
        return {"version": done[0].version, "before": done[0].before}

    def _current(self) -> Settings:
        return present.current(self._settings, self._database)

    def _leave(self, kind: Kind, name: str) -> None:
        """See that nothing that runs goes without a word: what is in no file is switched off."""
        if any(each.name == name for each in connections.every(self._settings, kind)):
            return
        if any(
            each.enabled for each in connections.every(self._current(), kind) if each.name == name
        ):
            raise Impossible(f"switch {kind} {name} off first")

    def _refuse(self, found: Sequence[Mistake]) -> None:
        if found:
            told_of = [each._asdict() for each in found]
            raise Mistaken(f"{len(found)} mistakes: {found[0].text}", mistakes=told_of)

    def _unfit(self, planned: Settings, kind: Kind, name: str) -> Iterator[Mistake]:
        """Make it as a start would, and say what is wrong with each part."""
        find, said = in_force(self._settings, self._database), set()
        for part in verifying.parts(planned, kind, name, find):
            try:
                part()
            except MappingErrors as error:
                field = "mappings" if kind is Kind.LISTENER else "mapping"
                said.add(Mistake(field, error.issues[0].message))
            except BridgeError as error:
                said.add(Mistake(_FIELDS.get(type(error), ""), str(error)))
        yield from sorted(said)

    def _worth_a_look(
        self, planned: Settings, kind: Kind, name: str
    ) -> Iterator[Mapping[str, Any]]:
        own = f"{kind} {name}"
        soon = self._clock() + round(planned.alerts.certificate_before * 1000)
        for owner, at in expiries(certificate_files(planned)).items():
            if owner == own and at < soon:
                yield {"code": "certificate", "at": at}
