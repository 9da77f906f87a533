"""Live pages: open windows, event streams, SyncLaunch."""
