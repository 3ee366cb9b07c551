"""The fast path: answers messages that are surely valid, and passes every other one to the SDK unchanged.

So every rejection is the SDK's own. Nothing here imports the SDK; both fast paths share one registry and one
dispatcher, gates, limits and log included.
"""
