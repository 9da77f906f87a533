"""The ledger: store arrivals before they are acknowledged, and detect retransmits."""
