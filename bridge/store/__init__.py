"""The database: transactions on SQLite or PostgreSQL, statements, tables and migrations."""
