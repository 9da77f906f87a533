"""Use cases of the report engine, one file a chapter of the interface document."""
