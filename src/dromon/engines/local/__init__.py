"""This machine as an engine: a per-user daemon, its journal, its launcher, and the client of it.

No other engine is known here. GPU and cgroup words of this machine live here and nowhere else.
"""
