"""Engines that execute delegated work; each implements `delegation/engine.py`."""
