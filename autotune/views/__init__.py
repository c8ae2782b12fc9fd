"""Output: texts, tables, the console, data frames and the page (step 12)."""
