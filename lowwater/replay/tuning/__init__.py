"""Statistics of the last runs for each LFTA, and the settings they recommend."""
