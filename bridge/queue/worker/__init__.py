"""The worker: claim stored messages, apply them, and settle the outcomes."""
