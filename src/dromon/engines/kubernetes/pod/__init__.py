"""What runs in a pod. Light: the standard library alone, Python 3.9 and newer."""
