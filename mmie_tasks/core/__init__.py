"""Verdicts, errors, paths, files, bootstrap and tables; imports nothing of ours."""
