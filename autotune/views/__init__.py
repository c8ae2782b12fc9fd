"""Output of results: texts, tables, the console, data frames and the HTML report (step 12 of the flow)."""
