"""What rai costs, measured: `make bench`. Rows are kept in results.jsonl."""
