"""The loop, the ports it knows, one trial made, and a campaign's directory (steps 3 to 9)."""
