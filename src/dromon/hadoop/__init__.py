"""Hadoop as bytes: RPC, SASL, messages, site files, credentials. SANS-IO and LIGHT.

Nothing here opens a socket or a file, reads a clock or draws a random number: bytes and texts come
in as arguments, bytes and values go out. What is random on the wire (client ids, nonces) is an
argument too.
"""
