"""Teams, scores and tickets of a sports league."""
