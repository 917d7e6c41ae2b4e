"""From a folder of one's own to a model: look, choose, check, train."""
