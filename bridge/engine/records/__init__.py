"""
The engine's tables: rows as SQLModel classes, one module per subject, and their migrations.

`bridge.engine.records.tables` exports them all. Rows contain data and no rules. The rules are in
`bridge.engine.rules`, the use cases in `bridge.engine.service`.
"""
