"""Commands on finished runs: report, agreement, compare, subset, rescore."""
