"""Kubernetes with Volcano as an engine. This file ships to pods: nothing but this line in it."""
