"""The command line: parse, one call of `dromon.api`, render. Nothing is decided here.

Starting must cost next to nothing, so a module here imports only what every run of it needs;
`TYPE_CHECKING = False` stands in for the name of `typing`, whose import alone is a millisecond.
"""
