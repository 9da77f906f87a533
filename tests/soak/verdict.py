"""Hold what stands in the end against what was sent: nothing lost, doubled or reordered."""

from collections import Counter
from collections.abc import Sequence
from statistics import median

from tests.acceptance.cluster import Cluster
from tests.acceptance.test_kill import release
from tests.acceptance.wire import Sink, control_id
from tests.soak.traffic import OrderSender, Reader

GROWTH = 1.25  # of the memory between the second and the last quarter
ALLOWANCE = 24 * 2**20  # bytes: what a short run takes to warm up


def orders(cluster: Cluster, senders: Sequence[OrderSender]) -> list[str]:
    """Give what is wrong with the orders: each stands once, with its last change."""
    found = Counter[str]()
    standing: dict[str, str] = {}
    for row in cluster.nodes[0].worklist():
        for each in row["orders"]:
            found[each["Accession"]] += 1
            standing[each["Accession"]] = each.get("StudyDescription", "")
    wanted = {key: f"STEP {step}" for each in senders for key, step in each.latest.items()}
    wrong = [f"{key} stands {found[key]} times" for key in wanted if found[key] != 1]
    wrong += [
        f"{key} is {standing[key]}, not {last}"
        for key, last in wanted.items()
        if key in standing and standing[key] != last
    ]
    ((stored,),) = cluster.query("SELECT count(*) FROM message")
    sent = sum(each.sent for each in senders)
    if stored != sent:
        wrong.append(f"{stored} messages are stored and {sent} were sent")
    return wrong


def results(ris: Sink, reader: Reader) -> list[str]:
    """Give what is wrong with the results: each arrived, under one control id, in its own name."""
    ids: dict[str, set[bytes]] = {}
    wrong = []
    for message in ris.received:
        accession, _ = release(message)
        ids.setdefault(accession, set()).add(control_id(message))
        if f"Nothing found in {accession}.".encode() not in message:
            wrong.append(f"{accession} has another's text")
    wrong += [f"{each} was never delivered" for each in reader.signed if each not in ids]
    return wrong + [
        f"{key} has {len(each)} control ids" for key, each in ids.items() if len(each) > 1
    ]


def memory(samples: Sequence[int]) -> list[str]:
    """Give what is wrong with the memory (bytes, in order) of a node that was never killed."""
    quarter = len(samples) // 4
    if not quarter:
        return ["too few samples of the memory"]
    before, after = median(samples[quarter : 2 * quarter]), median(samples[-quarter:])
    if after > before * GROWTH + ALLOWANCE:
        return [f"memory grew from {before / 2**20:.0f} to {after / 2**20:.0f} MiB"]
    return []
