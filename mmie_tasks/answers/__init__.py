"""Answers somebody saved: reading their files, finding the one for a sample."""
