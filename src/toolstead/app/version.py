"""The version that interfaces report.

It stands here as a word, as it does in the package's `__version__`; a test holds the two together. To ask what is
installed would cost every start the import of `importlib.metadata`, more than all the settings together.
"""

VERSION = "0.1.0"
