"""Scores corrected by people."""
