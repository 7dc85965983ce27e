"""Commands on finished runs: report, agreement, compare, rescore."""
