"""
HL7 v2 to and from the report service: the message model and the mapping language.

Pure: definitions are text handed in or a folder to read; nothing here sends, stores or waits.
"""
