"""Measurements of others: benchmark logs, recorded landscapes, and tables beside each other."""
