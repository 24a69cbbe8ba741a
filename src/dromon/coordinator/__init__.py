"""LIGHT. The agents' counterpart: who is there, the barrier, the world, stop, exits.

`Coordinator` is lifecycle's shell without a socket: messages in, effects out. Whoever owns the
sockets (the daemon, the ApplicationMaster, the agent of member 0) carries the effects out.
Standard library only, Python 3.9.
"""
