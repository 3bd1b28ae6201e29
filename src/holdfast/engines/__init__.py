"""The same rules inside of real engines."""
