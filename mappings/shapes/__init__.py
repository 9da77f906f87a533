"""The shapes of segments and data types, version by version: data, and how it is read."""
