"""What is kept, in SQLite or Postgres: the store that `toolstead.orchestrator.store` describes.

`store.open_store` opens it. Only a process that opens a store imports SQLAlchemy.
"""
