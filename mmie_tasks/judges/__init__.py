"""Judges: they send a request to a model and return its reply. They know no benchmark."""
