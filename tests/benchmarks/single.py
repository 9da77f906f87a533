"""
Each message of the mixed set separately: intake alone, 10 connections with 32 frames in flight.

Each is sent as it is, and padded with notes to the next size class, so that the best and the worst
message of equal size can be compared.
"""

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.contestants import intake
from tests.benchmarks.load import send
from tests.benchmarks.mixed import Template, mixed, render
from tests.benchmarks.tables import Options, show

CLASSES = (1024, 2048, 4096, 8192, 16_384)
MESSAGES = 4000
WARM_UP = 200

Rates = dict[str, list[float]]


def size_class(template: Template) -> int:
    return next(size for size in CLASSES if size >= template.size)


def main(folder: Path, options: Options) -> None:
    found: dict[str, Rates] = {"as it is": {}, "padded": {}}
    templates = mixed()
    count = options.count or MESSAGES
    for _ in range(options.rounds):
        padded = [template.padded(size_class(template)) for template in templates]
        for kind, those in zip(found, (templates, padded), strict=True):
            _round(Path(tempfile.mkdtemp(dir=folder)), those, count, found[kind])
    rates = {
        kind: {name: statistics.median(item) for name, item in those.items()}
        for kind, those in found.items()
    }
    rows = [
        (template.name, f"{template.size:,}", f"{size_class(template):,}",
         *(f"{rates[kind][template.name]:.0f}" for kind in rates))
        for template in templates
    ]  # fmt: skip
    title = f"each message by itself, intake alone, SQLite, medians of {options.rounds} rounds"
    show(title, ("message", "bytes", "size class", "messages/s", "padded messages/s"), rows)
    summary = [_spread("as sent, all", templates, rates["as it is"])]
    for size in CLASSES:
        alike = [template for template in templates if size_class(template) == size]
        summary += [_spread(f"padded to {size:,}", alike, rates["padded"])] if alike else []
    columns = ("group", "worst", "messages/s", "best", "messages/s", "best / worst")
    show("best and worst message", columns, summary)


def _round(folder: Path, templates: Sequence[Template], count: int, rates: Rates) -> None:
    """Send each message `count` times to one intake."""
    first = 0
    with intake(folder, None).start() as port:
        for template in templates:
            send(port, 10, 32, render([template], first, WARM_UP))
            run = send(port, 10, 32, render([template], first + WARM_UP, count))
            first += WARM_UP + count
            rates.setdefault(template.name, []).append(run.rate)


def _spread(group: str, templates: Sequence[Template], rates: dict[str, float]) -> tuple[str, ...]:
    ordered = sorted((rates[template.name], template.name) for template in templates)
    (low, worst), (high, best) = ordered[0], ordered[-1]
    return group, worst, f"{low:.0f}", best, f"{high:.0f}", f"{high / low:.2f}"
