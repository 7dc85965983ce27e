"""Judges: they carry a request to a model and bring back words. They know no benchmark."""
