"""Routes of the HTTP interface for host applications, one module for each chapter."""
