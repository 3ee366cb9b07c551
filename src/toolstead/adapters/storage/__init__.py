"""What is kept, in SQLite or Postgres: the store that `toolstead.orchestrator.store` describes.

`store.open_store` is the door. Only who opens a store pays for importing SQLAlchemy.
"""
