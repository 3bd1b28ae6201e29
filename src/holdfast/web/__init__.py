"""The playground and the live view: one small server on loopback, pages without a build step."""
