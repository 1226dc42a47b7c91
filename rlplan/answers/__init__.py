"""What each command finds, and how it is drawn for a person: a module for each, loaded when it is called."""
