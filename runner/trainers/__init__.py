"""Other people's trainers, driven: what each one wants is data and pure functions, one supervisor does the rest."""
