"""Where data comes from: the Hub, or a local folder."""
