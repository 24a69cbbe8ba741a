"""PURE. Who runs, where, and why not yet. Used by the local engine and by the simulator.

`cluster` keeps what is known, `decide` says what to do about it, `explain` answers for one job.
No clock, no chance, no I/O: time and seed are arguments, decisions come back as events.
"""
