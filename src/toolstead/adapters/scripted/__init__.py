"""The scripted runtime: plays a script in the place of a model, without a key and without a network."""
