"""What each command does, answers, and draws for a person: a module for each, loaded when it is called."""
