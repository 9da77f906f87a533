"""Output of one message or delivery: its fields with their names, reply, calls, attempts, trace."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bridge.cli.output import print_record, with_times

if TYPE_CHECKING:
    from bridge.admin.items.queue_entries import ShownItem


def print_message(shown: "ShownItem", *, as_json: bool) -> None:
    """Print a message, its acknowledgment, the calls to the report engine, and its trace."""
    content = shown.content
    row = {**with_times(shown.row), "notes": content["notes"]}
    if as_json:
        found = {**_contained(content), "patients": content["patients"], "calls": content["calls"]}
        _print_json({**row, **found, "trace": shown.trace})
        return
    texts = {**_texts(content), "patients": "\n".join(_patients(content["patients"]))}
    texts |= {"calls": "\n".join(map(_call, content["calls"]))}
    if shown.trace is not None:
        texts["trace"] = "\n".join(_trace(shown.trace))
    print_record(row, texts, as_json=False)


def print_delivery(shown: "ShownItem", *, as_json: bool) -> None:
    """Print a delivery, the last reply with its errors, and all failed attempts."""
    content = shown.content
    row, reply = with_times(shown.row), content["ack"]
    errors = reply["errors"] if reply else []
    if as_json:
        found = {**row, **_contained(content, "reply"), "errors": errors}
        _print_json({**found, "attempts_made": content["attempts"]})
        return
    from bridge.admin.messages.message_content import error_line

    texts = {
        **_texts(content, "reply"),
        "errors_of_last_reply": "\n".join(map(error_line, errors)),
        "failed_attempts": "\n".join(map(_attempt, content["attempts"])),
    }
    print_record(row, texts, as_json=False)


def _patients(patients: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what the message says of each patient, and what is known."""
    facts = ("name", "birth_date", "sex")
    for patient in patients:
        merged = f", merged into {patient['merged_into']}" if patient["merged_into"] else ""
        yield f"{patient['known']['mrn']} of site {patient['site']}{merged}"
        for source in ("said", "known"):
            if patient[source] is not None:
                values = (patient[source][fact] or "-" for fact in facts)
                known = f"known, {patient['orders']} orders"
                name = known if source == "known" else "in the message"
                yield f"    {name}: {' | '.join(values)}"


def _print_json(found: Mapping[str, Any]) -> None:
    print(json.dumps(found, ensure_ascii=False, indent=2, default=str))


def _contained(content: Mapping[str, Any], reply: str = "ack") -> dict[str, Any]:
    names = ("charset", "tree", "more", "damaged")
    own = {name: content[name] for name in names}
    return {"payload": content["raw"], reply: (content["ack"] or {}).get("raw", ""), **own}


def _texts(content: Mapping[str, Any], reply: str = "ack") -> dict[str, str]:
    return {
        "payload": content["raw"],
        reply: (content["ack"] or {}).get("raw", ""),
        "fields": "\n".join(_fields(content["tree"])),
    }


def _fields(nodes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each segment and each part with a value, with its name."""
    for node in nodes:
        if node["children"]:
            if "-" not in node["place"]:
                yield f"{node['place']}  {node['name']}".rstrip()
            yield from _fields(node["children"])
        elif node["text"]:
            meaning = f" ({node['meaning']})" if node["meaning"] else ""
            yield f"  {node['place']:<12} {node['name']}: {node['text']}{meaning}"


def _call(call: Mapping[str, Any]) -> str:
    answer = call["status"] or "no answer"
    named = " ".join(filter(None, (call["call"], call["place"])))
    return f"{named}: {answer} {call['code']}".rstrip() + f", {call['took']} ms"


def _attempt(attempt: Mapping[str, Any]) -> str:
    what = "reply after the first one" if attempt["kind"] == "reply" else "attempt"
    reason = f": {attempt['reason']}" if attempt["reason"] else ""
    line = f"{attempt['at']}  {what}  {attempt['code']}{reason}"
    if attempt["retry_at"]:
        line += f"  (next attempt {attempt['retry_at']})"
    return line if attempt["errors"] or not attempt["reply"] else f"{line}\n    {attempt['reply']}"


def _trace(trace: Mapping[str, Any]) -> Iterator[str]:
    """Yield which rule gave each value, and why other sources were not used."""
    if trace["note"]:
        yield trace["note"]
    if trace["definition"]:
        state = "active" if trace["active"] else "not active now"
        yield f"{trace['definition']} {trace['version']} ({state})"
    if refusal := trace["refusal"]:
        where = f" ({refusal['file']}:{refusal['line']})" if refusal["file"] else ""
        yield f"refused: {refusal['code']} {refusal['place']} {refusal['text']}{where}"
    for event in trace["events"]:
        yield f"{event['action']} {event['place']}"
        for target in event["targets"]:
            if target["present"] or target["sources"]:
                yield from _target(target)


def _target(target: Mapping[str, Any]) -> Iterator[str]:
    value = target["value"] if target["explained"] else f"{target['value']} (not explained)"
    yield f"  {target['target']}: {value}".rstrip()
    for source in target["sources"]:
        read = ", ".join(source["places"])
        found = f" {json.dumps(source['raw'], ensure_ascii=False)}" if source["raw"] else ""
        note = f" ({source['note']})" if source["note"] else ""
        at = f" at {read}" if read else ""
        line = f"{source['file']}:{source['line']}"
        yield f"    {source['outcome']}: {source['text']}{at}{found}{note}  {line}"
