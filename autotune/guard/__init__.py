"""Whether settings that held when they were kept still hold tonight, whatever was upgraded (step 13)."""
