"""Tables, figures and pages from plain numbers; nothing here needs torch."""
