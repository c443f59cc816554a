"""What the last runs measured of each LFTA, and what follows from it."""
