"""The ledger: store arrivals before they are acknowledged, and recognize retransmits."""
