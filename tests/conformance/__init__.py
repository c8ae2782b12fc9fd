"""Every algorithm that can be forced, against results that no MPI computed."""
