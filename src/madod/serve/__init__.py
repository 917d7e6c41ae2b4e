"""A model behind HTTP: an interface for programs and a page for people."""
