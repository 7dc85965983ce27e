"""Judging sessions: batches of requests, deferred rows, progress; failures become `Unscored`."""
