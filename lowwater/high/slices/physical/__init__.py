"""The physical operators of a slice: groups and joins over Arrow columns, and operators that take rows one by one."""
