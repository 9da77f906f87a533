"""
From release to acknowledged result: what goes out.

The pure part is in `destinations`, `announcing`, `polling` and `replies`; the shells are
`follower` and `poller` (what happened), `composer` and `courier` (what is sent).
"""
