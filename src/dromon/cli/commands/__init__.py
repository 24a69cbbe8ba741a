"""One module for each command: `configure` describes its arguments, `execute` carries it out."""
