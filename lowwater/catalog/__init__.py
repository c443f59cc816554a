"""The vocabulary of plans: types, values, functions, protocols and schemas; `time` decides what is late or promised."""
