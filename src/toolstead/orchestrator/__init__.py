"""What happens around a call: the event log, later threads and the message pipeline.

Below: `tools`. Above: the doors, which show views of the log.
"""
