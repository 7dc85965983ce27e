"""Text-to-image models: servers and pipelines that draw the pictures of an answer."""
