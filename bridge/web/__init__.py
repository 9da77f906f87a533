"""HTTP for the engine, the console and HL7 listeners: server, limits, bodies, problems."""
