"""Show results as texts, tables, console output, data frames and an HTML report (step 12 of the flow)."""
