"""Cases that failed once: world and number. The list only grows; what was wrong stands beside."""

FOUND = (
    (3, 0),  # `<<` beyond 64 bits wrapped
    (11, 1),  # dialect: a product of two integers of 32 bits is beyond 63 bits before it wraps
    (16, 7),  # a band of no width was taken for an equality, which ties its columns (V1)
)
