"""Pages for browsers: report links, sessions, notices."""
