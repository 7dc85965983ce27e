"""Answers of tested models: parse them in any shape, read saved ones and match them to samples."""
