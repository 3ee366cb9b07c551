"""Conversations: threads and their messages, the pipeline from a message to the end of its run, the event log."""
