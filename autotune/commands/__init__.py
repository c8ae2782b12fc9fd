"""The work of the command line's verbs; ``cli`` declares them and imports these modules late."""
