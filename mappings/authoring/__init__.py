"""Support for authors of definitions: try, compare, infer from samples."""
