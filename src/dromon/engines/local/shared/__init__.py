"""Many users on one machine: an arbiter that decides for all of them, and a daemon's side of it.

The arbiter starts nothing and owns no job: each user's own daemon does that. What a daemon says is
believed of its own user's jobs only, and who that user is the kernel says.
"""
