"""
Intake: receives, stores and acknowledges HL7 messages, and registers their orders in the report
engine.

* `receive`   frame, verdict, stored message, acknowledgment
* `process`   stored message, plan, calls to the report engine
* `patients`  demographics, merges and visits of known orders
* `validation`  checks of messages against HL7 structures and profiles, before they are handled
"""
