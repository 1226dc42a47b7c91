"""What a person sees while something is under way: screens, followers, signals."""
