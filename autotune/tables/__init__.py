"""Other people's measurements: read benchmark logs and tables, and compare them with each other."""
