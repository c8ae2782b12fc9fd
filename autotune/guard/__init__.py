"""Check every night whether saved tuned settings are still in effect and as fast as when they were saved."""
