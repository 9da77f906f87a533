"""The message index of a test, brought up to date at once."""

from bridge.admin.messages.message_index import MessageIndexer


def index_all(indexer: MessageIndexer) -> int:
    total = 0
    while count := indexer.index_batch():
        total += count
    return total
