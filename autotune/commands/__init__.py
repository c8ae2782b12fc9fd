"""The work of the command line's verbs; ``cli`` declares them and imports these modules late.

What writes a file raises ``StorageError`` where the disk is full or read-only.
"""
