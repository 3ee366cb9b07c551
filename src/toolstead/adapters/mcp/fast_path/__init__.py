"""The fast fast path: answers messages that are surely valid itself, and leaves every other one to the SDK, untouched.

So every rejection is the SDK's own. Nothing here imports the SDK; both fast paths share one registry and one
dispatcher, gates, limits and log included.
"""
