"""Client of a report service: our own engine in this process, or any service over HTTP."""
