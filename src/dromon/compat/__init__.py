"""Doors for programs written for other tools. Each is thin, over `dromon.api`."""
