"""
Plug-in for speed: short work on SQLite runs on the event loop's own thread.

ADR 0003 has the measured gain. `Database.short_work` is the seam: None without the plug-in,
and then a thread of a named pool does the same work.
"""
