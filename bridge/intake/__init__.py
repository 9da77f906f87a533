"""
From frame to acknowledged order to report: what comes in.

The pure part is in `identity`, `routing`, `replies`, `order_rules`, `grouping`; the shells are
`handler` (frames) and `forwarder` (the report service).
"""
