"""
The host for child processes that run foreign code or parse foreign documents.

`pools` has the pools of this process; `pool.WorkerPool.call` is what the rest of the bridge uses.
"""
