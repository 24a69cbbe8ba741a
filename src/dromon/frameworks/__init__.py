"""LIGHT, PURE. World, Member -> the environment variables of one process of one member."""
