"""Container images of swe-rl: what they are made of and how they are built."""
