"""Worker processes: they run hooks, parse uploaded documents and read large messages outside of the
service's process.

`host` starts, limits, replaces and ends the processes. `pool` has the pools of sealed processes
(see `confinement`), `offload` has the process for large messages.
"""
