"""Live responses: server-sent events, the change feed, SyncLaunch."""
