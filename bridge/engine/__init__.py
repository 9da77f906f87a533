"""The report engine: it stores reports and serves HTTP. Only `bridge.report_engine` imports it."""
