"""Run a campaign: the loop with its ports, the observation of one trial, the campaign's directory."""
