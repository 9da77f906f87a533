"""
From release to acknowledged result: what goes out.

The pure part is in `replies`, `releases`, `identity`; the shells are `poller`, `composer` and
`courier`.
"""
