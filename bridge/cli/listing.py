"""What `messages list` and `deliveries list` share: filters, the search by a number, the table."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bridge.cli.options import number_option, state_option

if TYPE_CHECKING:
    from bridge.operations.channels import Kind
    from bridge.queue.browse import Filter


@dataclass(frozen=True, slots=True)
class Listing:
    """The options of one list command; `source` is a listener or a destination."""

    home: Path
    state: str | None
    source: str | None
    control_id: str | None
    patient: str | None
    order: str | None
    since: int | None
    before: int | None
    limit: int
    as_json: bool
    report: str | None = None

    def show(self, kind: "Kind", columns: Sequence[str]) -> None:
        """Print messages of listeners, or deliveries to destinations. Audit a search by number."""
        from bridge.cli.show import rows, times
        from bridge.operations.channels import Kind
        from bridge.queue import browse
        from bridge.wiring import numbered
        from bridge.wiring.channels import must_be_known
        from bridge.wiring.commanding import audited
        from bridge.wiring.stores import bridge_database
        from config import load

        of_messages = kind is Kind.LISTENER
        wanted = self._filter()
        number = number_option(self.control_id, self.patient, self.order)
        with bridge_database(self.home) as database:
            if number is None:
                browsed = browse.messages if of_messages else browse.deliveries
                found = [times(asdict(row)) for row in browsed(database, wanted)]
            else:
                what = "messages" if of_messages else "deliveries"
                with audited(self.home, database, "search", (what, f"by {number[0]} number")):
                    rows_found = (
                        numbered.messages(database, *number, wanted)
                        if of_messages
                        else numbered.deliveries(load(self.home), database, *number, wanted)
                    )
                found = [times(asdict(row)) for row in rows_found]
                if of_messages and (behind := numbered.not_indexed(database)):
                    print(
                        f"note: the newest {behind} messages are not indexed yet", file=sys.stderr
                    )
        if not found:
            must_be_known(self.home, kind, self.source)
        rows(found, columns, as_json=self.as_json)

    def _filter(self) -> "Filter":
        from bridge.queue.browse import Filter

        state = state_option(self.state)
        return Filter(state, self.source, self.report, self.since, self.before, self.limit)
