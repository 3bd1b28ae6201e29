"""Handwritten digits learned by nodes of which some lie."""
