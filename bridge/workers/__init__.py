"""
The one host for child processes: hooks, foreign documents and large messages.

`pools` has the pools of sealed processes, `offload` the process for large messages; `host` starts,
limits, replaces and ends both kinds.
"""
