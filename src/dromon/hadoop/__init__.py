"""Hadoop as bytes: RPC, SASL, messages, site files, credentials. LIGHT, and SANS-IO but for two.

``transport`` (RPC) and ``webhdfs`` (HTTP) open sockets. Nothing else here opens one or a file,
reads a clock or draws a random number: bytes and texts come in as arguments, bytes and values go
out. What is random on the wire (client ids, nonces) is an argument too.
"""
