"""One module for each MPI implementation: what is installed, and a trial in its words (step 5)."""
