"""The mapping language as a JSON Schema, for editors: derived from what the compiler knows."""
