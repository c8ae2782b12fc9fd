"""Trials, their observations, envelopes (the best choice at each size), and the journal that stores them."""
