"""The site file: queues, priorities, users and reservations, said once by an administrator.

What it may say is in `model`, how it is read and judged in `file` and `consistency`, what the
scheduler makes of it in `rules`, who may do what in `access`. No engine is known here.
"""
