"""Run a campaign: the loop with its ports, the observation of one trial, the directory (steps 3 to 9)."""
