"""Grade a judge on public verdicts of people before it judges."""
