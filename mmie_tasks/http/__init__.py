"""Sending many requests to servers: client, rate limit, retries, budget."""
