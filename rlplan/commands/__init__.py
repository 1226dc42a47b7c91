"""The commands, by what a person is doing; what is heavy is imported inside the functions that need it."""
