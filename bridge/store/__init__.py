"""
The database: one address, two dialects, and the migrations of whoever keeps tables in it.

`bridge.store.database` is the only file that knows which dialect it talks to.
"""
