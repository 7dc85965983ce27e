"""Many requests to one or several HTTP servers: clients, rate limits, retries, cost limit."""
