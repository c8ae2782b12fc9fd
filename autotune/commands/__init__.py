"""What the verbs of the command line do; ``cli`` declares them and imports these modules late."""
