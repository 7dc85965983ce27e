"""Compares this package with published artefacts and official code: ``make parity``."""
