"""
Which heading each finding belongs under, asked of a chat model (`POST /v1/chat/completions`).

The model answers with numbers of lines and headings: none of its words ever reaches a report.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from bridge.engine.assistance.endpoint import call
from bridge.engine.assistance.errors import ModelFailed
from bridge.engine.settings import ModelEndpoint

_TASK: Final = (
    "You sort lines of radiology findings under the headings of a report. "
    'Answer only with JSON: {"places": [[line, heading], …]}, both as the numbers given. '
    "Leave out lines that fit no heading."
)


async def place(
    endpoint: ModelEndpoint, headings: Sequence[str], lines: Sequence[str]
) -> Mapping[str, str]:
    """
    Return a heading for each line that the model placed; the rest is left to the rules.

    Raises ModelFailed when the answer is none.
    """
    if not headings or not lines:
        return {}
    asked = {"headings": dict(enumerate(headings)), "lines": dict(enumerate(lines))}
    found = await call(
        endpoint,
        json={
            "model": endpoint.model,
            "temperature": 0,
            "response_format": {"type": "json_object"},
            "messages": [
                {"role": "system", "content": _TASK},
                {"role": "user", "content": json.dumps(asked, ensure_ascii=False)},
            ],
        },
    )
    return {lines[line]: headings[at] for line, at in _pairs(found, len(lines), len(headings))}


def _pairs(answer: Any, lines: int, headings: int) -> Iterator[tuple[int, int]]:
    """Give the pairs of numbers that name a line and a heading which there are."""
    try:
        pairs = json.loads(answer["choices"][0]["message"]["content"])["places"]
    except (LookupError, TypeError, ValueError):
        raise ModelFailed from None
    if not isinstance(pairs, list):
        raise ModelFailed
    for pair in pairs:
        match pair:
            case [int(line), int(at)] if 0 <= line < lines and 0 <= at < headings:
                yield line, at
            case _:
                continue
