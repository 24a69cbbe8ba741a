"""What a job said and measured, read from its record: logs and metrics. Nothing is written here."""
