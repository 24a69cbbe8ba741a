"""An engine for tests, with real member processes and a controller that has a will of its own.

It stands in for Kubernetes with Volcano: pods are placed as a gang, the loss of a pod restarts the
whole job without asking `lifecycle`, and a job ends by the exit codes of its pods. `lifecycle` runs
beside the first member. Nothing here is offered to users.
"""
