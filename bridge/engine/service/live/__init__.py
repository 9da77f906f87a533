"""Live pages: open windows, events, SyncLaunch."""
