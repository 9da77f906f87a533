"""The engine's tables and their migrations. Rows contain data and no rules."""
