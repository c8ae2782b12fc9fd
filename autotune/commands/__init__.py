"""Do the work of the command line's verbs: one module for each verb, and modules that several verbs share.

``cli`` declares the verbs, and imports the module of a verb when the user calls this verb. Functions that
write a file raise ``StorageError`` if the disk is full or read-only.
"""
