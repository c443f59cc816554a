"""A simulation of a lake in a store: many processes, their clocks, pauses and deaths, and a store with faults."""
