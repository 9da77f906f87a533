"""Worker processes: hooks, uploaded documents and large messages run outside of the service's
process.

`host` starts, limits, replaces and ends the processes. `pool` has pools of sealed processes,
`offload` the process for large messages.
"""
