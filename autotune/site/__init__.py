"""A whole site: measurements of few jobs extrapolated to other sizes, and abstention where they are too few.

Place in the flow: measured times of shapes → decisions for all shapes.
"""
