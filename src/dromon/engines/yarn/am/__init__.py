"""LIGHT. What runs on the cluster's nodes: the ApplicationMaster, and its members' containers.

Standard library only, Python 3.9; ships in the light zipapp.
"""
