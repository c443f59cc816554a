"""The rows of each output query over an interval, checked against the rules of every stream."""
