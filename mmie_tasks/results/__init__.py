"""Commands on finished runs: report, table, agreement, compare, export."""
