"""LIGHT, PURE. What happens to a gang: `Gang.step(event, now) -> commands`.

States as literal tables, policies, retries with back-off, deadlines, completion rules. No clock,
no I/O, no logging: time is an argument and effects are returned. Standard library, Python 3.9.
"""
