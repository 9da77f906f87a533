"""The admin console: queries and use cases for operators; it reaches the report engine by HTTP."""
