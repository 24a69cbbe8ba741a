"""Hadoop YARN: the client on the user's machine, and in `am` what runs on the cluster."""
