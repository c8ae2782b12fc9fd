"""Tables of recorded measurements, from which a campaign gets its results in place of a cluster."""
