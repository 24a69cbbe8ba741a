"""LIGHT. One agent runs one member: spawn, signal, reap, capture, heartbeat, exit record.

Standard library only, Python 3.9: it ships to cluster nodes as a zipapp. It decides nothing for
the gang; that is `lifecycle`, told to it by the coordinator.
"""
