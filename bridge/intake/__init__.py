"""Intake: HL7 messages are received, stored, acknowledged, and applied to the report engine as
orders.

* `receive`   frame, verdict, stored message, acknowledgment
* `process`   stored message, plan, calls to the report engine
* `patients`  demographics, merges and visits of the orders that are known
"""
