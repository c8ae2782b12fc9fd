"""The work of the command line's verbs; ``cli`` declares the verbs and imports each module when it is needed.

Functions that write a file raise ``StorageError`` if the disk is full or read-only.
"""
