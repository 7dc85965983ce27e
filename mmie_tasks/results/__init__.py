"""Commands on finished runs: report, table, agreement, compare, rescore."""
