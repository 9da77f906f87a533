"""The installation: its data directory, the rotation of its keys, and what it keeps how long."""
