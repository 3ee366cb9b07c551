"""Search providers of the web: which one can be used (`choice`), and one request to it (`searcher`).

`apis` and `gemini` say how each provider is asked and what its answer means.
"""
