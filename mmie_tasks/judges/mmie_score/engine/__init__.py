"""Many prompts at once through one model: continuous batching over a paged key/value cache."""
