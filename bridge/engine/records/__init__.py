"""
The engine's own tables: rows as SQLModel classes, one file a subject, and their migrations.

`bridge.engine.records.tables` names them all. Rows hold data and no rule: what may happen to a
report stands in `bridge.engine.rules`, and what does happen in `bridge.engine.service`.
"""
