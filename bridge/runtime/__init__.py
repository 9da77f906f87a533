"""The life of a service process: event loop, web server, schedule, start and stop of its parts."""
