"""
HL7 v2 messages and the mapping language: messages to order events, released reports to messages.

The package is pure. It reads definitions from texts or from a folder; it does not send, store or
wait.
"""
