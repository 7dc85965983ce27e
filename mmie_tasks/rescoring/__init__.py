"""Saved replies and answers, read again with the readers of this version. No judge is asked."""
