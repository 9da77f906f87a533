"""The admin console: what operators see and do, over HTTP; it knows no engine but over HTTP."""
