"""Kubernetes and Volcano, every process of them real: `python -m testbeds.kubernetes up`."""
