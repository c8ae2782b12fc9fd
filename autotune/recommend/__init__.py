"""From a history to one setting and few rules: front, rules, summary, worth (step 10)."""
